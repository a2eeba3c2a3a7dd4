"""The models of bench/models/*.h in Python, op for op, for systems with a Python frontend."""
import torch
from torch import nn
from torch.nn import functional as F


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, True) + 1e-6)).to(x.dtype)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class LlamaBlock(nn.Module):
    def __init__(self, width=768, heads=12, kv_heads=4, inner=2048):
        super().__init__()
        self.head, self.groups = width // heads, heads // kv_heads
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.q, self.k, self.v = linear(width, width), linear(width, self.head * kv_heads), linear(width, self.head * kv_heads)
        self.o, self.gate, self.up, self.down = linear(width, width), linear(width, inner), linear(width, inner), linear(inner, width)
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)

    def forward(self, x, cos, sin):
        batch, length = x.shape[:2]
        heads = lambda t: t.view(batch, length, -1, self.head).transpose(1, 2)
        h = self.norm1(x)
        keys = rotate(heads(self.k(h)), cos, sin).repeat_interleave(self.groups, 1)
        values = heads(self.v(h)).repeat_interleave(self.groups, 1)
        a = F.scaled_dot_product_attention(rotate(heads(self.q(h)), cos, sin), keys, values, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(batch, length, -1))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, layers=12, width=768, vocabulary=32000):
        super().__init__()
        self.head = 64
        self.embedding, self.norm, self.out = nn.Embedding(vocabulary, width), RmsNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.blocks = nn.ModuleList(LlamaBlock() for _ in range(layers))

    def forward(self, ids):
        x = self.embedding(ids)
        steps = torch.pow(10000.0, -torch.arange(0, self.head, 2, dtype=torch.float32) / self.head)
        angles = torch.outer(torch.arange(ids.shape[1], dtype=torch.float32), steps)
        angles = torch.cat((angles, angles), 1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.out(self.norm(x))


class BertLayer(nn.Module):
    def __init__(self, width=768, heads=12, inner=3072):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        batch, length = x.shape[:2]
        split = lambda t: t.view(batch, length, self.heads, -1).transpose(1, 2)
        a = F.scaled_dot_product_attention(split(self.q(x)), split(self.k(x)), split(self.v(x)))
        x = self.norm1(x + self.o(a.transpose(1, 2).reshape(batch, length, -1)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, layers=12, width=768):
        super().__init__()
        self.words, self.positions, self.kinds = nn.Embedding(30522, width), nn.Embedding(512, width), nn.Embedding(2, width)
        self.norm, self.layers = nn.LayerNorm(width), nn.ModuleList(BertLayer() for _ in range(layers))

    def forward(self, ids):
        x = self.norm(self.words(ids) + self.positions(torch.arange(ids.shape[1])) + self.kinds(torch.zeros_like(ids)))
        for layer in self.layers:
            x = layer(x)
        return x


class Vit(nn.Module):
    def __init__(self, layers=12, width=768):
        super().__init__()
        self.patches, self.norm, self.out = nn.Conv2d(3, width, 16, stride=16), nn.LayerNorm(width), nn.Linear(width, 1000)
        self.positions = nn.Parameter(torch.randn(1, 197, width) * 0.02)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.layers = nn.ModuleList(BertLayer() for _ in range(layers))

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(x.shape[0], -1, -1), x), 1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.out(self.norm(x).select(1, 0))


class Gpt2Block(nn.Module):
    def __init__(self, width=768, heads=12):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        batch, length = x.shape[:2]
        parts = [p.view(batch, length, self.heads, -1).transpose(1, 2) for p in self.qkv(self.norm1(x)).chunk(3, -1)]
        a = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(batch, length, -1))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers=12, width=768, vocabulary=50257, heads=12, positions=1024):
        super().__init__()
        self.words, self.positions, self.norm = nn.Embedding(vocabulary, width), nn.Embedding(positions, width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Gpt2Block(width, heads) for _ in range(layers))

    def forward(self, ids):
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.words.weight)


class Bottleneck(nn.Module):
    def __init__(self, width, inner, stride):
        super().__init__()
        conv = lambda a, b, kernel, stride: nn.Conv2d(a, b, kernel, stride=stride, padding=kernel // 2, bias=False)
        self.conv1, self.conv2, self.conv3 = conv(width, inner, 1, 1), conv(inner, inner, 3, stride), conv(inner, 4 * inner, 1, 1)
        self.norm1, self.norm2, self.norm3 = nn.BatchNorm2d(inner), nn.BatchNorm2d(inner), nn.BatchNorm2d(4 * inner)
        same = width == 4 * inner and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(conv(width, 4 * inner, 1, stride), nn.BatchNorm2d(4 * inner))

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        y = torch.relu(self.norm2(self.conv2(y)))
        return torch.relu(self.norm3(self.conv3(y)) + self.shortcut(x))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64), nn.Linear(2048, 1000)
        blocks, width = [], 64
        for inner, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
            for i in range(count):
                blocks.append(Bottleneck(width, inner, 2 if i == 0 and inner > 64 else 1))
                width = 4 * inner
        self.blocks = nn.Sequential(*blocks)

    def forward(self, images):
        x = F.max_pool2d(torch.relu(self.norm(self.conv(images))), 3, 2, 1)
        return self.out(F.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1))


class Mlp(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i + 1 < len(self.layers):
                x = torch.relu(x)
        return x


class LstmStep(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.input, self.hidden = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width)

    def forward(self, x, h, c):
        gates = (self.input(x) + self.hidden(h)).chunk(4, 1)
        cell = torch.sigmoid(gates[1]) * c + torch.sigmoid(gates[0]) * torch.tanh(gates[2])
        return torch.cat((torch.sigmoid(gates[3]) * torch.tanh(cell), cell), 1)


class SmallCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.conv3 = (nn.Conv2d(c, 32, 3, stride=s, padding=1) for c, s in ((3, 1), (32, 2), (32, 2)))
        self.out = nn.Linear(32, 10)

    def forward(self, images):
        x = torch.relu(self.conv3(torch.relu(self.conv2(torch.relu(self.conv1(images))))))
        return self.out(x.mean((2, 3)))


class TrainedCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.norm1, self.norm2, self.out = nn.BatchNorm2d(32), nn.BatchNorm2d(64), nn.Linear(64, 10)

    def forward(self, images):
        x = torch.relu(self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(images))))))
        return self.out(x.mean((2, 3)))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 10)

    def forward(self, x):
        return self.out(self.lstm(x)[0].select(1, -1))


class BertClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert, self.out = Bert(), nn.Linear(768, 2)

    def forward(self, ids):
        return self.out(self.bert(ids).select(1, 0))


class LoraLinear(nn.Module):
    """A frozen linear layer with a trained low-rank correction of scale 2."""

    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        self.a, self.b = nn.Parameter(torch.randn(rank, base.in_features) * 0.02), nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.a), self.b) * 2.0


def lora_llama(on_all, dtype):
    model = Llama()
    for parameter in model.parameters():
        parameter.requires_grad = False
    for block in model.blocks:
        for name in ("q", "v", "k", "o", "gate", "up", "down") if on_all else ("q", "v"):
            setattr(block, name, LoraLinear(getattr(block, name), 8))
    return model.to(dtype)


class PeftLlama(nn.Module):
    """The model of the network `bank` of bench_loop, by Transformers and PEFT."""

    def __init__(self):
        import peft
        import transformers
        super().__init__()
        config = transformers.LlamaConfig(vocab_size=32000, hidden_size=768, intermediate_size=2304, num_hidden_layers=12,
                                          num_attention_heads=12, num_key_value_heads=3, max_position_embeddings=8192)
        model = transformers.LlamaForCausalLM(config)
        self.model = peft.get_peft_model(model, peft.LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"]))

    def forward(self, ids):
        return self.model(input_ids=ids, use_cache=False).logits


def make_training(name):
    """Returns a model, its input and its targets, equal to those of bench_loop."""
    torch.manual_seed(0)
    ids = lambda batch, length, vocabulary: torch.randint(3, vocabulary, (batch, length))
    classes = lambda sizes, count: torch.randint(count, sizes)
    if name == "bank":
        tokens = ids(4, 128, 32000)
        return PeftLlama(), tokens, tokens.roll(-1, 1)
    if name.startswith("llama"):
        tokens = ids(4, 128, 32000)
        return lora_llama(name == "llama_all", torch.bfloat16 if name == "llama_bf16" else torch.float32), tokens, tokens.roll(-1, 1)
    return {
        "mlp": lambda: (Mlp([64, 128, 128, 10]), torch.randn(32, 64), classes((32,), 10)),
        "cnn": lambda: (TrainedCnn(), torch.randn(32, 3, 32, 32), classes((32,), 10)),
        "lstm": lambda: (Lstm(), torch.randn(32, 16, 64), classes((32,), 10)),
        "gpt": lambda: (Gpt2(4, 256, 1000, 8, 64), ids(8, 64, 1000), classes((8, 64), 1000)),
        "bert": lambda: (BertClassifier(), ids(8, 128, 30000), classes((8,), 2)),
    }[name]()


LARGE = ("llama", "bert", "gpt2", "vit", "resnet50")
SMALL = ("mlp3", "mlp6", "lstm", "cnn")


def make(name, dtype, batch):
    """Returns a model and its inputs, equal to those of bench_infer."""
    torch.manual_seed(0)
    ids = lambda vocabulary: torch.randint(3, vocabulary, (batch, 128))
    image = lambda size: torch.randn(batch, 3, size, size)
    vector = lambda width: torch.randn(batch, width)
    model, inputs = {
        "llama": lambda: (Llama(), (ids(32000),)),
        "bert": lambda: (Bert(), (ids(30522),)),
        "gpt2": lambda: (Gpt2(), (ids(50257),)),
        "vit": lambda: (Vit(), (image(224),)),
        "resnet50": lambda: (ResNet50(), (image(224),)),
        "mlp3": lambda: (Mlp([128] * 4), (vector(128),)),
        "mlp6": lambda: (Mlp([64, 256, 256, 256, 256, 256, 64]), (vector(64),)),
        "lstm": lambda: (LstmStep(), (vector(128), vector(128), vector(128))),
        "cnn": lambda: (SmallCnn(), (image(32),)),
    }[name]()
    inputs = tuple(t.to(dtype) if t.is_floating_point() else t for t in inputs)
    return model.to(dtype).eval(), inputs

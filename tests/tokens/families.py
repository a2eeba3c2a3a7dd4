"""Small tokenizers with the configurations of well-known models, trained on the fly."""
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
ALPHABET = pre_tokenizers.ByteLevel.alphabet()


def train(tokenizer, lines, trainer):
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def bpe(size, specials, **more):
    return trainers.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False, **more)


def gpt2(lines):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return train(t, lines, bpe(3000, ["<|endoftext|>"], initial_alphabet=ALPHABET))


def by_pattern(pattern, lines):
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, lines, bpe(3000, [], initial_alphabet=ALPHABET))
    t.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    t.add_tokens([AddedToken("<tool>", rstrip=True, normalized=False)])
    begin = t.token_to_id("<|begin_of_text|>")
    t.post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A $B:1", special_tokens=[("<|begin_of_text|>", begin)])])
    return t


def qwen(lines):
    t = by_pattern(LLAMA3.replace("{1,3}", ""), lines)
    t.normalizer = normalizers.NFC()
    return t


def sentence_piece(lines, metaspace):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if metaspace:
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=metaspace == "split")
    else:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    train(t, [line[:60] for line in lines], bpe(2500, specials, limit_alphabet=400))
    first = t.token_to_id("<s>")
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", first)])
    return t


def bert(lines, lowercase):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(cleanup=lowercase)
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    train(t, lines, trainers.WordPieceTrainer(vocab_size=3000, special_tokens=specials, show_progress=False, limit_alphabet=900))
    cls, sep = t.token_to_id("[CLS]"), t.token_to_id("[SEP]")
    if lowercase:
        t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", cls), ("[SEP]", sep)])
    else:
        t.post_processor = processors.BertProcessing(("[SEP]", sep), ("[CLS]", cls))
    return t


def roberta(lines):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.decoder = decoders.ByteLevel()
    train(t, lines, bpe(3000, ["<s>", "<pad>", "</s>", "<unk>"], initial_alphabet=ALPHABET))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    return t


def clip(lines):
    t = Tokenizer(models.BPE(unk_token="<|end|>", end_of_word_suffix="</w>", fuse_unk=False))
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase(), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"<\|start\|>|<\|end\|>|'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
                                               pre_tokenizers.Digits(individual_digits=True)])
    t.decoder = decoders.BPEDecoder(suffix="</w>")
    return train(t, lines, bpe(2500, ["<|start|>", "<|end|>"], end_of_word_suffix="</w>", limit_alphabet=500))


def prefixed(lines):
    """Not a well-known model: uses the options that the other tokenizers do not use."""
    t = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##"))
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Split("ab", "merged_with_previous"),
                                               pre_tokenizers.Split(Regex(r"\d\b|\w{2}?[x-z]"), "merged_with_next")])
    t.decoder = decoders.WordPiece()
    train(t, lines, bpe(2500, ["[UNK]"], continuing_subword_prefix="##", limit_alphabet=500))
    t.add_tokens([AddedToken("Öl", single_word=True), AddedToken("yes", single_word=True, lstrip=True, rstrip=True), AddedToken("no  ", normalized=False, lstrip=True)])
    return t


# Name: constructor, strings that are mixed into the test strings.
FAMILIES = {
    "gpt2": (gpt2, ["<|endoftext|>"]),
    "llama3": (lambda lines: by_pattern(LLAMA3, lines), ["<|eot_id|>", "<tool>", "<|begin_of_text|>"]),
    "gpt4o": (lambda lines: by_pattern(GPT4O, lines), ["<tool>  ", "<|eot_id|>"]),
    "qwen": (qwen, ["<tool>\n"]),
    "llama2": (lambda lines: sentence_piece(lines, ""), ["</s>", "<s>", "<0x41>"]),
    "metaspace_first": (lambda lines: sentence_piece(lines, "whole"), ["</s>", " <s>"]),
    "metaspace_split": (lambda lines: sentence_piece(lines, "split"), ["</s>"]),
    "bert_uncased": (lambda lines: bert(lines, True), ["[MASK]", "[SEP] ", "##s"]),
    "bert_cased": (lambda lines: bert(lines, False), ["[MASK]", "[sep]"]),
    "roberta": (roberta, ["<mask>", "  <mask>", "</s>"]),
    "clip": (clip, ["<|start|>", "<|END|>"]),
    "prefixed": (prefixed, ["öl", " yes ", "Öl", "no  ", "yes"]),
}
BYTE_LEVEL = ("gpt2", "llama3", "gpt4o")

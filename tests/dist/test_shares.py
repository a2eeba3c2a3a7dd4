"""The batches of each process are those of Accelerate."""
import json
import random
import subprocess

from accelerate.data_loader import BatchSamplerShard
from conftest import TOOL
from torch.utils.data import BatchSampler, SequentialSampler


def accelerate_share(examples, batch, ranks, rank, drop_last, split, even):
    sampler = BatchSampler(SequentialSampler(range(examples)), batch, drop_last)
    return [list(b) for b in BatchSamplerShard(sampler, ranks, rank, split_batches=split, even_batches=even)]


def test_shares_are_those_of_accelerate():
    choose = random.Random(3)
    cases = [(10, 2, 2), (11, 2, 2), (9, 2, 2), (13, 2, 4), (3, 4, 2), (1, 2, 4), (11, 4, 2), (9, 4, 2)]
    cases += [(choose.randint(1, 60), choose.choice([1, 2, 3, 4, 8, 12]), choose.choice([1, 2, 3, 4, 8])) for _ in range(300)]
    lines, expected = [], []
    for examples, batch, ranks in cases:
        for drop_last in (False, True):
            for split in (False, True) if batch % ranks == 0 else (False,):
                for even in (True, False):
                    for rank in range(ranks):
                        lines.append(f"{examples} {batch} {ranks} {rank} {drop_last:d} {split:d} {even:d}")
                        expected.append(accelerate_share(examples, batch, ranks, rank, drop_last, split, even) if ranks > 1 else
                                        [list(b) for b in BatchSampler(SequentialSampler(range(examples)), batch, drop_last)])
    found = subprocess.run([TOOL, "shares"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(found) == len(lines) > 1000
    for line, ours, theirs in zip(lines, found, expected):
        assert json.loads(ours) == theirs, line

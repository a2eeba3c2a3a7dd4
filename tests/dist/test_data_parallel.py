"""Training in several processes beside one process with the joint batch."""
import numpy
import pytest
from conftest import train

NETS = ["mlp", "cnn", "lstm", "transformer"]


def compare(several, one):
    """All processes end with the same weights, and the losses are those of the joint batch up to rounding."""
    assert len(set(several.digests)) == 1
    assert len(several.losses) == len(one.losses) > 0
    numpy.testing.assert_allclose(several.losses, one.losses, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("net", NETS)
def test_joint_batch(net, ranks):
    one = train(1, net=net, batch=4 * ranks, shuffle=0, lr_every=4)
    compare(train(ranks, net=net, batch=4, shuffle=0, lr_every=4 * ranks), one)


@pytest.mark.parametrize("net", NETS)
def test_compiled(net):
    one = train(1, net=net, batch=8, shuffle=0, lr_every=4)
    settings = dict(net=net, batch=4, shuffle=0, lr_every=8, backend="native")
    several = train(2, **settings)
    compare(several, one)
    assert train(2, **settings).digests == several.digests


@pytest.mark.parametrize("backend", ["no", "native"])
def test_accumulation(backend):
    one = train(1, batch=8, shuffle=0, lr_every=4, accumulate=3, backend=backend)
    compare(train(2, batch=4, shuffle=0, lr_every=8, accumulate=3, backend=backend), one)


@pytest.mark.parametrize("net", NETS)
def test_whole_step_in_one_function(net):
    settings = dict(net=net, batch=4, shuffle=0, accumulate=2)
    compare(train(2, whole=1, **settings), train(2, **settings))


def test_last_batch_is_filled_from_the_beginning():
    one = train(1, batch=8, shuffle=0, lr_every=4, examples=61, again=3)
    compare(train(2, batch=4, shuffle=0, lr_every=8, examples=61), one)


@pytest.mark.parametrize("backend", ["no", "native"])
def test_divided_optimizer_state(backend):
    settings = dict(net="cnn", batch=4, shuffle=1, backend=backend)
    whole, divided = train(2, **settings), train(2, shard=1, **settings)
    compare(divided, whole)
    assert divided.digests == whole.digests
    assert max(divided.state_bytes) <= 1.1 / 2 * whole.state_bytes[0]


def test_repeats_are_equal():
    first, second = train(4, net="mlp", batch=2, shuffle=1), train(4, net="mlp", batch=2, shuffle=1)
    assert first.digests == second.digests and first.losses == second.losses


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("shard", [0, 1])
def test_resume_in_the_middle_of_an_epoch(ranks, shard, tmp_path):
    """A run of one epoch that saves after five batches, and one that continues from there."""
    whole = train(ranks, batch=4, shard=shard, epochs=2)
    train(ranks, batch=4, shard=shard, epochs=1, checkpoint=tmp_path / "state", every=5)
    continued = train(ranks, batch=4, shard=shard, epochs=2, checkpoint=tmp_path / "state", resume=1)
    assert continued.digests == whole.digests
    assert continued.losses == whole.losses[-len(continued.losses):]
    assert len(continued.losses) < len(whole.losses)

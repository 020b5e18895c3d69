import numpy as np
import pytest

import gquant


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(3).standard_normal((2, 19, 512)).astype(np.float32)


@pytest.mark.parametrize("type", ["Q8_0", "Q4_K", "Q2_K", "Q4_0", "MXFP4", "F16"])
def test_there_and_back(x, type):
    blocks, loss = gquant.encode(x, type, loss=True)
    of = gquant.tensor_type(type)
    assert blocks.dtype == np.uint8 and blocks.shape == (2, 19, 512 // of.elements * of.bytes)
    y = gquant.decode(blocks, type)
    assert y.shape == x.shape and y.dtype == np.float32
    assert loss.n == x.size and loss.weighted is None
    assert loss.rmse == pytest.approx(np.sqrt(np.mean((x - y) ** 2)), rel=1e-4)
    assert 0 < loss.relative < {"Q8_0": 0.01, "Q4_K": 0.09, "Q2_K": 0.35, "Q4_0": 0.12, "MXFP4": 0.16, "F16": 1e-3}[type]
    assert np.array_equal(blocks, gquant.encode(x, type, threads=1))


def test_importance_lowers_what_it_weighs(x):
    importance = np.tile(np.geomspace(1e-3, 1, 16), 32)
    plain, weighted = (gquant.decode(gquant.encode(x, "Q2_K", i), "Q2_K") for i in (None, importance))
    assert np.sum(importance * (x - weighted) ** 2) < 0.8 * np.sum(importance * (x - plain) ** 2)


@pytest.fixture(scope="module")
def hessian():
    """Of inputs that have much in common."""
    rng = np.random.default_rng(8)
    y = 0.5 * rng.standard_normal((3000, 512)) + rng.standard_normal((3000, 20)) @ (0.3 * rng.standard_normal((20, 512)))
    return y.T @ y / len(y)


def test_a_hessian_lower_the_error_of_products(x, hessian):
    def lost(**what):
        off = (x - gquant.decode(gquant.encode(x, "Q4_K", **what), "Q4_K")).reshape(-1, 512).astype(np.float64)
        return np.sum((off @ hessian) * off)

    blocks, loss = gquant.encode(x, "Q4_K", hessian=hessian, loss=True)
    assert lost(hessian=hessian) == pytest.approx(loss.we2, rel=1e-4)
    assert loss.we2 < 0.5 * lost(importance=np.diag(hessian))
    assert lost(hessian=hessian, effort="best") < loss.we2 < lost(hessian=hessian, damp=0.5)
    assert np.array_equal(blocks, gquant.encode(x, "Q4_K", moments=hessian.tolist(), threads=1))  # its name in version 0.1
    assert np.array_equal(blocks, gquant.encode(x, "Q4_K", hessian=hessian, damp=0.01, shrink=0.3))


def test_a_hessian_that_are_refused(x, hessian):
    for wrong, says in ((hessian[:, :5], "hessian has the shape"), (hessian - 1000 * np.eye(512), "column 0 is -"),
                        (np.where(np.arange(512) == 7, np.nan, hessian), "nan"), (np.triu(hessian), "expected the value at \\[0\\]\\[1\\]")):
        with pytest.raises(gquant.UsageError, match=says):
            gquant.encode(x, "Q4_K", hessian=wrong)
    for wrong, says in ((dict(importance=np.ones(512)), "not both"), (dict(damp=2), "damp 2 is not from 0 to 1")):
        with pytest.raises(gquant.UsageError, match=says):
            gquant.encode(x, "Q4_K", hessian=hessian, **wrong)
    with pytest.raises(gquant.UsageError, match="separately"):
        gquant.encode(x, "F16", hessian=hessian)
    with pytest.raises(gquant.UsageError, match="shrink works only with hessian"):
        gquant.encode(x, "Q4_K", shrink=0.5)


def test_products_are_those_of_decoded_rows(x):
    blocks, v = gquant.encode(x, "Q4_K"), x[0, 0]
    assert gquant.dot(blocks, "Q4_K", v) == pytest.approx(gquant.decode(blocks, "Q4_K") @ v, abs=0.05)


def test_any_layout_of_memory(x):
    turned = np.asfortranarray(x[0].astype(np.float64))
    assert np.array_equal(gquant.encode(turned, "Q4_K"), gquant.encode(x[0], "Q4_K"))
    assert np.array_equal(gquant.encode(x[:, ::2], "Q4_K"), gquant.encode(x[:, ::2].copy(), "Q4_K"))


def test_refusals(x):
    with pytest.raises(gquant.UsageError, match="multiple of 256"):
        gquant.encode(x[..., :300], "Q4_K")
    with pytest.raises(gquant.UsageError, match="no tensor type 'Q4_K_M'"):
        gquant.encode(x, "Q4_K_M")
    with pytest.raises(gquant.UsageError, match="importance has the shape"):
        gquant.encode(x, "Q4_K", np.ones(5))
    with pytest.raises(gquant.UsageError, match="column 7 is -1"):
        gquant.encode(x, "Q4_K", np.where(np.arange(512) == 7, -1, 1))
    with pytest.raises(gquant.UsageError, match="no whole blocks"):
        gquant.decode(np.zeros(100, dtype=np.uint8), "Q4_K")
    with pytest.raises(gquant.UsageError, match="numpy.uint8"):
        gquant.decode(np.zeros(144), "Q4_K")
    with pytest.raises(gquant.UsageError, match="effort"):
        gquant.encode(x, "Q4_K", effort="most")
    bad = x.copy()
    bad[1, 2, 3] = np.nan
    with pytest.raises(gquant.BadWeights, match="row 21, column 3 is"):
        gquant.encode(bad, "Q4_K")
    assert issubclass(gquant.BadWeights, ValueError)


def test_masked_arrays_are_refused(x, model):
    masked = np.ma.masked_array(x, mask=x > 1)
    blocks = gquant.encode(x, "Q4_0")
    with gquant.GGUFBuilder() as d:
        for call in (lambda: gquant.encode(masked, "Q4_0"), lambda: gquant.encode([masked[0], masked[1]], "Q4_0"),
                     lambda: gquant.encode(x, "Q4_0", np.ma.masked_less(np.ones(512), 2)),
                     lambda: gquant.decode(np.ma.masked_equal(blocks, blocks.flat[0]), "Q4_0"),
                     lambda: gquant.dot(blocks, "Q4_0", np.ma.masked_less(np.ones(512), 2)),
                     lambda: d.add("x", masked, "F16"),
                     lambda: gquant.evaluate(model, text=np.ma.masked_less(np.arange(300), 2))):
            with pytest.raises(TypeError, match="masked"):
                call()
        with pytest.raises(gquant.UsageError):
            d["ids"] = np.ma.masked_less(np.arange(5), 2)
    assert np.array_equal(gquant.encode(np.ma.masked_array(x), "Q4_0"), blocks)  # nothing is masked


def test_types_are_listed():
    by_name = {t.name: t for t in gquant.types()}
    assert by_name["Q4_K"].elements == 256 and by_name["Q4_K"].bytes == 144 and by_name["Q4_K"].writable
    assert "Q4_K_M" in {f.name for f in gquant.file_types()}
    assert gquant.isa() and gquant.__version__

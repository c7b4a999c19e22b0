"""Programs that torch.export saved, from the file to what they compute."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openinfer.errors import ModelImportError
from openinfer.importers import ImportedModel, load, verify
from openinfer.plugins.environment import Environment

torch = pytest.importorskip("torch", reason="files are written by the package torch")

from torch import Tensor, nn  # noqa: E402

pytestmark = [
    pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu"),
    pytest.mark.filterwarnings("ignore"),
]

BATCH = torch.export.Dim("rows", min=2, max=64)


def saved(folder: Path, module: nn.Module, *inputs: Any, dynamic: Any = None) -> Path:
    path = folder / "model.pt2"
    torch.export.save(torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic), path)
    return path


def agreeing(path: Path, **values: Any) -> ImportedModel:
    """Return an imported program that computes what the saved one does."""
    model = load(path, values=values)
    checked = verify(path, model, values=values)
    assert checked.agrees, str(checked)
    assert checked.runner.startswith("PyTorch")
    return model


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
    features[1].running_mean.normal_()
    return nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(8, 4))


def test_a_network_of_convolutions(tmp_path: Path) -> None:
    model = agreeing(saved(tmp_path, convolutional(), torch.randn(2, 3, 8, 8), dynamic=({0: BATCH},)))

    assert model.model.sizevars == {"batch": 2}
    assert "1 batch norm folded" in str(model.report)
    assert "batch_norm(" not in model.text


def test_a_program_that_was_saved_in_core_operators(tmp_path: Path) -> None:
    path = tmp_path / "core.pt2"
    torch.export.save(
        torch.export.export(convolutional().eval(), (torch.randn(2, 3, 8, 8),)).run_decompositions(), path
    )

    model = agreeing(path)

    assert "op conv2d(" in model.text
    assert "op linear(" in model.text


def test_a_dimension_and_an_input_that_are_fixed(tmp_path: Path) -> None:
    class Scaled(nn.Module):
        def forward(self, x: Tensor, scale: Tensor) -> dict[str, Tensor]:
            return {"scaled": x * scale, "rows": x.sum(0)}

    path = saved(tmp_path, Scaled(), torch.randn(3, 4), torch.ones(4), dynamic=({0: BATCH}, None))
    model = agreeing(path, batch=5, scale=[1.0, 2.0, 3.0, 4.0])

    assert list(model.report.inputs) == ["x"]
    assert dict(model.report.outputs) == {"scaled": "scaled", "rows": "rows"}


class Cached(nn.Module):
    """Keeps the last rows and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.arange(8.0).reshape(4, 2))
        self.register_buffer("count", torch.tensor([0]))
        self.register_buffer("scale", torch.tensor([1.0, 2.0], dtype=torch.bfloat16))

    def forward(self, row: Tensor) -> tuple[Tensor, Tensor]:
        self.rows.index_copy_(0, self.count % 4, row)
        self.count.add_(1)
        return self.rows.mean(0) * self.scale.float(), self.count.clone()


def test_buffers_that_a_module_writes(tmp_path: Path) -> None:
    model = agreeing(saved(tmp_path, Cached(), torch.randn(1, 2)))

    assert set(model.report.states) == {"rows", "count"}
    np.testing.assert_array_equal(
        model.model.tensor_store().values("rows"), np.arange(8, dtype=np.float32).reshape(4, 2)
    )
    assert "scale: bf16[2]" in model.text


def test_a_layer_of_attention_over_sequences_of_any_length(tmp_path: Path) -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.places = nn.Linear(8, 24), nn.Embedding(32, 8)

        def forward(self, x: Tensor) -> Tensor:
            batch, length, _ = x.shape
            h = x + self.places.weight[:length]
            q, k, v = self.qkv(h).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return seen.transpose(1, 2).reshape(batch * length, 8)

    length = torch.export.Dim("length", min=2, max=32)
    torch.manual_seed(0)
    model = agreeing(saved(tmp_path, Layer(), torch.randn(2, 5, 8), dynamic=({0: BATCH, 1: length},)))

    assert "op sdpa(" in model.text
    assert set(model.model.sizevars) == {"batch", "x_1"}


def test_what_depends_on_constants_alone_is_computed_at_import(tmp_path: Path) -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 3))

        def forward(self, x: Tensor) -> Tensor:
            mask = x.new_zeros((3, 3))
            mask[1:, :2] = float("-inf")
            return (x @ self.weight.t().contiguous().t()) + mask.tril()

    model = agreeing(saved(tmp_path, Masked(), torch.randn(3, 4)))

    assert [line.split("(")[0].strip() for line in model.text.splitlines() if " op " in line] == ["op matmul", "op add"]
    assert "weight: f32[4, 3];" in model.text
    assert model.report.folded > 2


def test_an_operator_without_a_translation_is_listed(tmp_path: Path) -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.special.digamma(x) + torch.special.i0(x)

    with pytest.raises(ModelImportError, match=r"without a translation: aten\.digamma\.default, aten\.i0\.default"):
        load(saved(tmp_path, Odd(), torch.ones(3)))


def test_complex_results_are_among_what_is_refused(tmp_path: Path) -> None:
    class Spectral(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.digamma(x) + torch.view_as_real(torch.complex(x, x)).sum(-1)

    with pytest.raises(ModelImportError) as refused:
        load(saved(tmp_path, Spectral(), torch.ones(3)))
    assert {node.split(" ")[0] for node in refused.value.nodes} == {"aten.digamma.default", "aten.complex.default"}


def test_example_inputs_that_only_a_pickle_holds_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, nn.ReLU(), torch.ones(3))
    changed = tmp_path / "changed.pt2"
    torch.save({"x": Path("x")}, tmp_path / "objects.pt")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
        for info in old.infolist():
            is_inputs = info.filename.endswith("sample_inputs/model.pt")
            new.writestr(info, (tmp_path / "objects.pt").read_bytes() if is_inputs else old.read(info))

    with pytest.raises(ModelImportError, match="whose pickle could run code"):
        load(changed)


def test_a_damaged_program_is_one_error(tmp_path: Path) -> None:
    path = saved(tmp_path, nn.ReLU(), torch.ones(3))
    changed = tmp_path / "changed.pt2"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
        for info in old.infolist():
            new.writestr(info, b"{}" if info.filename.endswith("models/model.json") else old.read(info))

    with pytest.raises(ModelImportError, match="is not a program of torch"):
        load(changed)

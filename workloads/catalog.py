"""Every workload: its shapes, its defaults, its source.

Opens at once: a picker reads it, so it imports neither Keras nor NumPy.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from dlmon.records.sanitize import SHOWN_LENGTH, quoted

# More threads than any machine has; a backend that is asked for millions aborts.
MAX_THREADS = 4096
# Beyond this, numbers get too large for a record.
MAX_EPOCHS = MAX_STEPS = 1_000_000_000

ESTIMATED_VOCABULARY = 1_200_000
"""Words and pairs of words in IMDB's reviews: an estimate, which synthetic data keep to."""


class UnknownWorkload(LookupError):
    """No workload has this name; the message is a sentence that suggests one."""


@dataclass(frozen=True)
class Workload:
    """One network, its data, and the settings that its published numbers were taken with.

    Attributes:
        name: what a command line and a log call it.
        family: the data set, as a person writes it.
        title: what it is, in one line.
        source: where the network and its published numbers come from.
        metric: what these numbers are: `seconds_per_epoch` (validation
            included), `run_seconds` (build, every epoch, final evaluation), or
            `step_ms` (one batch: forward, forward and backward, or a training step).
        dataset: the data set's name in `workloads.data.load.DATASETS`.
        input_shape: one sample, without the batch axis.
        parameters: all weights, those that aren't trained too.
        forward_flops: floating-point operations of the forward pass of one sample. A multiply-add
            counts as 2, and only products with weights count, of a convolution with its zeros too.
        train_flops: those of training on one sample: for each product another one for the gradient
            of the weights, and one for that of its input, unless that is the sample itself.
        samples: training samples of the full data set, or of `steps` batches.
        validation_samples: how many of the first test samples every epoch
            validates on; None without validation.
        evaluation_samples: test samples that the run ends with; None without one.
        steps: batches to time, where the published numbers know no epochs; else None.
    """

    name: str
    family: str
    title: str
    source: str
    dataset: str
    input_shape: tuple[int, ...]
    parameters: int
    forward_flops: int
    train_flops: int
    batch_size: int
    epochs: int
    samples: int
    metric: str = "seconds_per_epoch"
    validation_samples: int | None = None
    evaluation_samples: int | None = None
    steps: int | None = None
    precision: str = "float32"
    mode: str = "train"

    def flops_per_sample(self, mode: str) -> int:
        """Return the floating-point operations of one sample in a mode of `run`.

        An optimizer's operations are never counted, so gradients take as many as training.
        """
        return self.forward_flops if mode == "inference" else self.train_flops


_HARDWARE_COMPARISON = (
    "yansongsong.cn: deep-learning hardware speed comparison (Keras on TF 1.x, March 2019)"
)
_GPU_SLOWER_THAN_CPU = "CSDN: GPU slower than CPU? (TensorFlow 2.0)"
_CLOUD_CPUS = "Woolf 2017: TensorFlow on cloud CPUs, Keras on K80 and P100"
_FOUR_GPUS = "Gusmao et al.: four GPUs and four frameworks (2017)"
_CONVNET_BENCHMARKS = f"{_FOUR_GPUS}; soumith/convnet-benchmarks (2016)"
_CNN_BENCHMARKS = "jcjohnson/cnn-benchmarks (2017)"
_RESNETS = f"{_CNN_BENCHMARKS}; TensorFlow performance guide (2017)"


def _imagenet(
    name: str,
    title: str,
    source: str,
    counts: tuple[int, int, int],
    size: int = 224,
    batch_size: int = 64,
    steps: int = 100,
) -> Workload:
    """Return a network whose published numbers are times of one batch.

    `counts` are its weights, and the operations of the forward pass and of training.
    """
    parameters, forward_flops, train_flops = counts
    return Workload(
        name=name,
        family="ImageNet-sized",
        title=title,
        source=source,
        metric="step_ms",
        dataset=f"imagenet-{size}",
        input_shape=(size, size, 3),
        parameters=parameters,
        forward_flops=forward_flops,
        train_flops=train_flops,
        batch_size=batch_size,
        epochs=1,
        samples=steps * batch_size,
        steps=steps,
    )


_ALL = (
    Workload(
        name="cifar10-cnn",
        family="CIFAR-10",
        title="Six convolutions without activations, on 32×32 colour images",
        source=_HARDWARE_COMPARISON,
        dataset="cifar10",
        input_shape=(32, 32, 3),
        parameters=1_337_002,
        forward_flops=79_366_656,
        train_flops=236_330_496,
        batch_size=100,
        epochs=10,
        samples=50_000,
        validation_samples=1_000,
    ),
    Workload(
        name="mnist-mlp-small",
        family="MNIST",
        title="One hidden layer of 128 units, on 28×28 digits",
        source=_GPU_SLOWER_THAN_CPU,
        metric="run_seconds",
        dataset="mnist",
        input_shape=(28, 28),
        parameters=101_770,
        forward_flops=203_264,
        train_flops=409_088,
        batch_size=32,
        epochs=10,
        samples=60_000,
        evaluation_samples=10_000,
    ),
    Workload(
        name="mnist-mlp-wide",
        family="MNIST",
        title="Two hidden layers of 1,000 units, on 28×28 digits",
        source=_GPU_SLOWER_THAN_CPU,
        metric="run_seconds",
        dataset="mnist",
        input_shape=(28, 28),
        parameters=1_796_010,
        forward_flops=3_588_000,
        train_flops=9_196_000,
        batch_size=32,
        epochs=10,
        samples=60_000,
        evaluation_samples=10_000,
    ),
    Workload(
        name="mnist-mlp",
        family="MNIST",
        title="Two hidden layers of 512 units, on 28×28 digits",
        source=_CLOUD_CPUS,
        dataset="mnist-rows",
        input_shape=(784,),
        parameters=669_706,
        forward_flops=1_337_344,
        train_flops=3_209_216,
        batch_size=128,
        epochs=20,
        samples=60_000,
        validation_samples=10_000,
    ),
    Workload(
        name="mnist-cnn",
        family="MNIST",
        title="Two convolutions and a hidden layer, on 28×28 digits",
        source=_CLOUD_CPUS,
        dataset="mnist-planes",
        input_shape=(28, 28, 1),
        parameters=1_199_882,
        forward_flops=23_984_896,
        train_flops=71_565_312,
        batch_size=128,
        epochs=12,
        samples=60_000,
        validation_samples=10_000,
    ),
    Workload(
        name="cifar10-deep-cnn",
        family="CIFAR-10",
        title="Four convolutions, on colour images shifted and flipped",
        source=_CLOUD_CPUS,
        dataset="cifar10-augmented",
        input_shape=(32, 32, 3),
        parameters=1_250_858,
        forward_flops=41_482_240,
        train_flops=122_677_248,
        batch_size=32,
        epochs=20,
        samples=50_000,
        validation_samples=10_000,
    ),
    Workload(
        name="imdb-fasttext",
        family="IMDB",
        title="The mean of words and pairs of words of film reviews",
        source=_CLOUD_CPUS,
        dataset="imdb-bigrams",
        input_shape=(400,),
        parameters=60_000_051,
        forward_flops=100,
        train_flops=300,
        batch_size=32,
        epochs=5,
        samples=25_000,
        validation_samples=25_000,
    ),
    Workload(
        name="imdb-bilstm",
        family="IMDB",
        title="A bidirectional LSTM over the last 100 words of film reviews",
        source=_CLOUD_CPUS,
        dataset="imdb-words",
        input_shape=(100,),
        parameters=2_658_945,
        forward_flops=19_661_056,
        train_flops=58_983_168,
        batch_size=32,
        epochs=4,
        samples=25_000,
        validation_samples=25_000,
    ),
    Workload(
        name="nietzsche-lstm",
        family="Nietzsche",
        title="An LSTM that guesses the next character of a text",
        source=_CLOUD_CPUS,
        dataset="nietzsche",
        input_shape=(40, 57),
        parameters=102_585,
        forward_flops=7_592_192,
        train_flops=20_441_856,
        batch_size=128,
        epochs=10,
        samples=200_285,
    ),
    _imagenet(
        "alexnet",
        "AlexNet, as in One Weird Trick: five convolutions",
        _CONVNET_BENCHMARKS,
        (61_100_840, 1_428_376_960, 4_144_577_280),
        batch_size=128,
    ),
    _imagenet(
        "overfeat",
        "OverFeat, fast: five convolutions",
        _CONVNET_BENCHMARKS,
        (145_920_872, 5_602_807_808, 16_589_856_768),
        size=231,
        batch_size=128,
    ),
    _imagenet(
        "vgg-a",
        "VGG, model A: 11 layers",
        _CONVNET_BENCHMARKS,
        (132_863_336, 15_218_180_096, 45_481_132_032),
    ),
    _imagenet(
        "vgg16",
        "VGG, model D: 16 layers",
        _RESNETS,
        (138_357_544, 30_940_528_640, 92_648_177_664),
    ),
    _imagenet(
        "googlenet",
        "Inception v1, without auxiliary heads",
        f"{_FOUR_GPUS}; {_CNN_BENCHMARKS}",
        (6_998_552, 3_165_343_744, 9_260_003_328),
        batch_size=16,
    ),
    _imagenet(
        "resnet50",
        "ResNet of 50 layers",
        _RESNETS,
        (25_636_712, 7_715_946_496, 22_911_811_584),
    ),
    _imagenet(
        "resnet101",
        "ResNet of 101 layers",
        _CNN_BENCHMARKS,
        (44_707_176, 15_140_388_864, 45_185_138_688),
        batch_size=16,
    ),
    _imagenet(
        "resnet152",
        "ResNet of 152 layers",
        _RESNETS,
        (60_419_944, 22_564_831_232, 67_458_465_792),
    ),
)

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _ALL}


def find(name: str) -> Workload:
    """Return the workload of this name.

    Raises:
        UnknownWorkload: there is none; the message names the nearest, or all.
    """
    if name in WORKLOADS:
        return WORKLOADS[name]
    word = name[:SHOWN_LENGTH].lower()
    nearest = [known for known in WORKLOADS if word and known.startswith(word)]
    nearest = nearest or difflib.get_close_matches(word, WORKLOADS, n=1)
    if nearest:
        *others, last = nearest
        meant = f"{', '.join(others)} or {last}" if others else last
        raise UnknownWorkload(f"there is no workload {quoted(name)}; did you mean {meant}?")
    raise UnknownWorkload(
        f"there is no workload {quoted(name)}; choose from {', '.join(WORKLOADS)}"
    )


def refuse_options(
    workload: Workload,
    *,
    batch_size: int | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    threads: int | None = None,
) -> str | None:
    """Say in one sentence why these options can't be run; None when they can.

    An option that is None was not given.
    """
    if batch_size is not None and not 1 <= batch_size <= workload.samples:
        return (
            f"the batch size must be from 1 to {workload.samples:,}, "
            f"the samples of {workload.name}, not {batch_size:,}"
        )
    for what, number, most in (("epochs", epochs, MAX_EPOCHS), ("steps", steps, MAX_STEPS)):
        if number is not None and number < 1:
            return f"the number of {what} must be at least 1, not {number:,}"
        if number is not None and number > most:
            return f"the number of {what} must be at most {most:,}, not {number:,}"
    if threads is not None and not 1 <= threads <= MAX_THREADS:
        return f"the number of threads must be from 1 to {MAX_THREADS:,}, not {threads:,}"
    return None

"""GPT-2, BERT and ViT of base size in Keras: 12 blocks of 768 units and 12 heads."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
from keras import layers, ops

from workloads.catalog import Workload
from workloads.failure import RunRefused

WIDTH, HEADS, DEPTH = 768, 12, 12
# GPT-2's vocabulary, the one of its 124,439,808 parameters and published times. nanoGPT has padded
# it to 50,304 since 2023, which GPUs multiply faster.
WORDS = {"gpt2-124m": 50_257, "bert-base": 30_522}
CLASSES_OF_TEXT, CLASSES_OF_IMAGES = 2, 1000
POSITIONS_OF_BERT, SEGMENTS_OF_BERT = 512, 2
PATCH = 16
DROPOUT_OF_BERT = 0.1

_Normalization = layers.LayerNormalization
_gelu_by_tanh = partial(keras.activations.gelu, approximate=True)
_gelu = partial(keras.activations.gelu, approximate=False)


def _normal() -> keras.Initializer:
    return keras.initializers.RandomNormal(stddev=0.02)


def _Dense(units: int, **named: Any) -> layers.Dense:
    return layers.Dense(units, kernel_initializer=_normal(), **named)


class Words(layers.Layer):  # type: ignore[misc]
    """An embedding of words: ids to rows, or in `reverse` rows to a logit for each word."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def build(self, shape: Any) -> None:
        self.embeddings = self.add_weight((self._count, WIDTH), _normal(), name="embeddings")

    def call(self, x: Any, reverse: bool = False) -> Any:
        # Symbolic calls on PyTorch don't cast weights by themselves.
        rows = ops.cast(self.embeddings, self.compute_dtype)
        return ops.matmul(x, ops.transpose(rows)) if reverse else ops.take(rows, x, axis=0)


class Positions(layers.Layer):  # type: ignore[misc]
    """Adds a learnt row to each position.

    Args:
        count: number of positions; a shorter input takes the first.
        segments: number of segments of a text; all of ours is in the first.
        class_token: insert a learnt row at the front, from which the class is read.
    """

    def __init__(self, count: int, segments: int = 0, class_token: bool = False) -> None:
        super().__init__()
        self._count, self._segments, self._has_class = count, segments, class_token

    def build(self, shape: Any) -> None:
        self.positions = self.add_weight((self._count, WIDTH), _normal(), name="positions")
        if self._segments:
            self.segments = self.add_weight((self._segments, WIDTH), _normal(), name="segments")
        if self._has_class:
            self.class_token = self.add_weight((1, 1, WIDTH), _normal(), name="class_token")

    def call(self, x: Any) -> Any:
        if self._has_class:
            row = ops.cast(self.class_token, x.dtype)
            x = ops.concatenate([ops.broadcast_to(row, (ops.shape(x)[0], 1, WIDTH)), x], axis=1)
        x = x + ops.cast(self.positions, x.dtype)[: x.shape[1]]
        return x + ops.cast(self.segments, x.dtype)[0] if self._segments else x


class Attention(layers.Layer):  # type: ignore[misc]
    """Attention over queries, keys and values that come side by side from one layer.

    Keras takes the backend's fused kernel (flash attention), which can't drop attention weights.
    TensorFlow has none.
    """

    def __init__(self, causal: bool) -> None:
        super().__init__()
        if not hasattr(ops, "dot_product_attention"):
            raise RunRefused(
                f"this network needs a newer Keras than {keras.__version__}: "
                "install it with: pip install --upgrade keras"
            )
        self._causal = causal

    def call(self, x: Any) -> Any:
        shape = (-1, x.shape[1], HEADS, WIDTH // HEADS)
        if x.dtype == "float16" and keras.backend.backend() == "jax" and _jax_is_on_cpu():
            x = ops.cast(x, "float32")
        parts = [ops.reshape(part, shape) for part in ops.split(x, 3, axis=-1)]
        attended = ops.dot_product_attention(*parts, is_causal=self._causal)
        return ops.cast(ops.reshape(attended, (-1, x.shape[1], WIDTH)), self.compute_dtype)


def _jax_is_on_cpu() -> bool:
    """Return whether JAX runs on the CPU, where its attention has no float16 products."""
    import jax

    return bool(jax.default_backend() == "cpu")


def _attend(x: Any, causal: bool = False) -> Any:
    return _Dense(WIDTH)(Attention(causal)(_Dense(3 * WIDTH)(x)))


def _perceive(x: Any, activation: Any) -> Any:
    return _Dense(WIDTH)(_Dense(4 * WIDTH, activation=activation)(x))


def _block(x: Any, epsilon: float, activation: Any, causal: bool = False) -> Any:
    """Return the output of a pre-norm block."""
    x = x + _attend(_Normalization(epsilon=epsilon)(x), causal)
    return x + _perceive(_Normalization(epsilon=epsilon)(x), activation)


def build_text(workload: Workload, depth: int = DEPTH) -> keras.Model:
    """Build and compile GPT-2 or BERT.

    GPT-2 returns logits of the next word, with the weights of its word embedding; BERT those of
    two classes, as it was fine-tuned for the published figures.
    """
    (length,) = workload.input_shape
    ids = keras.Input((length,), dtype="int32")
    words = Words(WORDS[workload.name])
    if workload.name == "gpt2-124m":
        x = Positions(length)(words(ids))
        for _ in range(depth):
            x = _block(x, 1e-5, _gelu_by_tanh, causal=True)
        # The loss is computed in float32 for logits of any precision.
        logits = words(_Normalization(epsilon=1e-5)(x), reverse=True)
        optimizer = keras.optimizers.AdamW(6e-4, beta_2=0.95, weight_decay=0.1)
    else:
        x = Positions(POSITIONS_OF_BERT, SEGMENTS_OF_BERT)(words(ids))
        x = layers.Dropout(DROPOUT_OF_BERT)(_Normalization(epsilon=1e-12)(x))
        for _ in range(depth):
            for half in (_attend, partial(_perceive, activation=_gelu)):
                x = x + layers.Dropout(DROPOUT_OF_BERT)(half(x))
                x = _Normalization(epsilon=1e-12)(x)
        pooled = layers.Dropout(DROPOUT_OF_BERT)(_Dense(WIDTH, activation="tanh")(x[:, 0]))
        logits = _Dense(CLASSES_OF_TEXT, dtype="float32")(pooled)
        optimizer = keras.optimizers.AdamW(2e-5, weight_decay=0.01)
    model = keras.Model(ids, logits, name=workload.name)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def vit(images: Any, depth: int = DEPTH) -> Any:
    """Return the class row of ViT-B/16 for images, the input of its last layer."""
    x = layers.Conv2D(WIDTH, PATCH, PATCH, data_format="channels_last")(images)
    patches = x.shape[1] * x.shape[2]
    x = Positions(1 + patches, class_token=True)(layers.Reshape((patches, WIDTH))(x))
    for _ in range(depth):
        x = _block(x, 1e-6, _gelu)
    return _Normalization(epsilon=1e-6)(x)[:, 0]

"""A Trainer of transformers with a model made on the spot.

Arguments: options as JSON; and how many steps another one does first, from whose checkpoint it
goes on.
"""

import json
import sys
import tempfile

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
from transformers.modeling_outputs import SequenceClassifierOutput


class Config(PretrainedConfig):
    model_type = "tiny"


class Model(PreTrainedModel):
    config_class = Config

    def __init__(self, config):
        super().__init__(config)
        self.net = nn.Linear(8, 3)
        self.samples = self.steps = 0
        self.post_init()

    def _init_weights(self, module):
        pass

    def forward(self, x, labels=None, **others):
        if self.training:
            self.samples, self.steps = self.samples + len(x), self.steps + 1
        logits = self.net(x)
        error = nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=error, logits=logits)


torch.manual_seed(0)
x, y = torch.randn(203, 8), torch.randint(0, 3, (203,))


class Data(torch.utils.data.Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return {"x": x[index], "labels": y[index]}


def trainer_of(model, **options):
    arguments = TrainingArguments(
        folder,
        per_device_train_batch_size=16,
        report_to=[],
        disable_tqdm=True,
        logging_steps=5,
        use_cpu=True,
        **{"save_strategy": "no", **json.loads(sys.argv[1]), **options},
    )
    return Trainer(model, arguments, train_dataset=Data(203), eval_dataset=Data(50))


with tempfile.TemporaryDirectory() as folder:
    model, first = Model(Config()), [int(steps) for steps in sys.argv[2:]]
    for steps in first:
        trainer_of(model, max_steps=steps, save_strategy="steps", save_steps=steps).train()
    trainer = trainer_of(model)
    trainer.train(resume_from_checkpoint=bool(first))
counts = {"samples": model.samples, "steps": model.steps, "updates": trainer.state.global_step}
print(json.dumps({**counts, "epochs": -(-model.steps // 13)}))
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
print(model.net.weight.tolist())

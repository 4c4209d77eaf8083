"""Loops that train on tokens, and count them themselves.

The argument says which: a loop over a loader, one that makes its batches itself, or a Trainer.
"""

import json
import sys
import tempfile

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

WORDS, LONGEST, EPOCHS, ADDED_UP = 20, 12, 2, 3
torch.manual_seed(0)
lengths = torch.randint(3, LONGEST, (50,)).tolist()
counts = {"tokens": 0, "not_padding": 0, "trained_on": 0, "steps": 0}


class Network(nn.Module):
    def __init__(self, computes_again=False):
        super().__init__()
        self.words, self.net = nn.Embedding(WORDS, 4), nn.Linear(4, WORDS)
        self.computes_again = computes_again

    def forward(self, ids):
        words = self.words(ids)
        return (
            checkpoint(self.net, words, use_reentrant=True)
            if self.computes_again
            else self.net(words)
        )


def collate(samples):
    longest = max(samples)
    ids = torch.randint(WORDS, (len(samples), longest))
    mask = torch.tensor([[1] * each + [0] * (longest - each) for each in samples])
    labels = ids.masked_fill(mask == 0, -100)
    # A question is not trained on.
    labels[:, :2] = -100
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def count(ids, mask, labels):
    counts["tokens"] += ids.numel()
    counts["not_padding"] += int(mask.sum())
    counts["trained_on"] += int((labels != -100).sum())


def loss_of(network, ids, labels):
    return nn.functional.cross_entropy(network(ids).flatten(0, 1), labels.flatten())


def loader():
    network = Network()
    optimizer = torch.optim.AdamW(network.parameters())
    for _ in range(EPOCHS):
        for number, batch in enumerate(DataLoader(lengths, 4, collate_fn=collate)):
            count(batch["input_ids"], batch["attention_mask"], batch["labels"])
            loss_of(network, batch["input_ids"], batch["labels"]).backward()
            if number % ADDED_UP == ADDED_UP - 1:
                optimizer.step()
                optimizer.zero_grad()
                counts["steps"] += 1
        with torch.no_grad():
            for batch in DataLoader(lengths[:20], 4, collate_fn=collate):
                loss_of(network, batch["input_ids"], batch["labels"])


def without_a_loader():
    network = Network(computes_again=True)
    optimizer = torch.optim.AdamW(network.parameters())
    for step in range(40):
        for _ in range(ADDED_UP):
            ids = torch.randint(WORDS, (4, 3 + step % 5))
            counts["tokens"] += ids.numel()
            loss_of(network, ids, ids).backward()
        optimizer.step()
        optimizer.zero_grad()
        counts["steps"] += 1
        if step % 10 == 0:
            network.eval()
            with torch.no_grad():
                network(torch.randint(WORDS, (4, LONGEST)))
            network.train()


def without_an_optimizer():
    network = Network()
    for step in range(40):
        ids = torch.randint(WORDS, (4, 3 + step % 5))
        counts["tokens"] += ids.numel()
        loss_of(network, ids, ids).backward()
        with torch.no_grad():
            for weight in network.parameters():
                weight -= 0.1 * weight.grad
                weight.grad = None
        counts["steps"] += 1


def trainer():
    from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
    from transformers.modeling_outputs import CausalLMOutput

    class Model(PreTrainedModel):
        config_class = PretrainedConfig

        def __init__(self, config):
            super().__init__(config)
            self.network = Network()
            self.post_init()

        def _init_weights(self, module):
            pass

        def forward(self, input_ids, attention_mask=None, labels=None, **others):
            if self.training:
                count(input_ids, attention_mask, labels)
            return CausalLMOutput(loss=loss_of(self.network, input_ids, labels))

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=ADDED_UP,
            num_train_epochs=EPOCHS,
            eval_strategy="epoch",
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
            use_cpu=True,
        )
        trained = Trainer(
            Model(PretrainedConfig()),
            arguments,
            train_dataset=lengths,
            eval_dataset=lengths[:20],
            data_collator=collate,
        )
        trained.train()
        counts["steps"] = trained.state.global_step


globals()[sys.argv[1]]()
print(json.dumps(counts))

"""Trains with XGBoost or LightGBM in every way, and prints what it counted itself."""

import importlib
import json
import sys

import numpy as np

package = importlib.import_module(sys.argv[1])
random = np.random.default_rng(1)
X = random.normal(size=(400, 5))
Y = (X[:, 0] + random.normal(size=400) > 0).astype(int)
OURS = []
counted = []


def data():
    return package.DMatrix(X, Y) if package.__name__ == "xgboost" else package.Dataset(X, Y)


if package.__name__ == "xgboost":

    class Counts(package.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            OURS.append(epoch)
            return False

    count = Counts()
    quiet = {"objective": "binary:logistic"}
    watch = lambda: {"evals": [(data(), "train")], "verbose_eval": False}  # noqa: E731
    stops, stop = [], {"early_stopping_rounds": 2}
    model = package.XGBClassifier(n_estimators=6)
else:

    def count(environment):
        OURS.append(environment.iteration)

    count.order = 5
    quiet = {"objective": "binary", "verbose": -1, "metric": "binary_logloss"}
    watch = lambda: {"valid_sets": [data()], "valid_names": ["valid"]}  # noqa: E731
    stops, stop = [package.early_stopping(2, verbose=False)], {}
    model = package.LGBMClassifier(n_estimators=6, verbose=-1)


def add(rounds):
    counted.append(rounds)


callbacks = [count]
package.train(quiet, data(), 7, callbacks=callbacks, **watch())
assert callbacks == [count]
add(len(OURS))
model.fit(X, Y)
add(6)
result = package.cv(quiet, data(), 5, nfold=3)
add(5)
# XGBoost takes what it watches by place, though its signature has it by name only.
package.train(quiet, data(), 3, [(data(), "train")] if stop else [data()])
add(3)


def fails(*arguments):
    raise ValueError("of the script's own")


try:
    if package.__name__ == "xgboost":
        package.train(quiet, data(), 3, obj=fails)
    else:
        package.train({**quiet, "objective": fails}, data(), 3)
except ValueError as error:
    print(error)
add(0)
# It learns nothing, and so stops early.
Y[:] = random.permutation(Y)
wild = {**quiet, "learning_rate": 5.0}
booster = package.train(wild, data(), 50, callbacks=[count, *stops], **watch(), **stop)
add(len(OURS) - 7)
try:
    package.train(quiet, data(), no_such_argument=1)
except TypeError as error:
    print(error)
print(json.dumps(counted))

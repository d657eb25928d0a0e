"""Our training step beside those of PyTorch libraries, on the same network, in one run on one core.

`python benchmarks/peers.py [--json] [--network 784-400-400-10] [--batch 128]` (extra `peers`).
torch-filter is the same model as ours (DropConnect family, jump-kernel prior of four components,
one draw, SGD) in plain float32 PyTorch; the three libraries do less (one Gaussian per weight, a
fixed prior): compare them with keep = 1, torch-filter with 0.5.
"""

import argparse
import json
import statistics
from itertools import pairwise

import harness

LESS = "one Gaussian, fixed prior"


def torch_step(model, penalty, x, y, rate: float):
    """An SGD step on sum of cross-entropy + penalty / 390."""
    import torch

    optimiser = torch.optim.SGD(model.parameters(), lr=rate)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), y, reduction="sum") + penalty() / 390
        loss.backward()
        optimiser.step()

    return step


def torch_filter(sizes: list[int], keep: float):
    """The paper's model: eta m + s xi, log q and log P pi as mixtures, autodiff."""
    import torch
    from torch.nn.functional import linear, relu, softplus

    def log_normal(w, mean, variance):
        return -0.5 * ((w - mean) ** 2 / variance + torch.log(variance))

    class Filter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            shapes = [s for i, o in pairwise(sizes) for s in ((o, i), (o,))]
            self.m = torch.nn.ParameterList(torch.randn(s) * 0.05 for s in shapes)
            self.rho = torch.nn.ParameterList(torch.full(s, -3.0) for s in shapes)
            self.before = [torch.randn(s) * 0.05 for s in shapes]
            self.wide = [torch.full(s, 0.02) for s in shapes]
            self.narrow = [torch.full(s, 0.001) for s in shapes]

        def forward(self, x):
            self.divergence = 0.0
            weights = []
            for m, rho, mu, wide, narrow in zip(
                self.m, self.rho, self.before, self.wide, self.narrow, strict=True
            ):
                s = softplus(rho)
                eta = torch.bernoulli(torch.full_like(m, keep))
                w = eta * m + s * torch.randn_like(m)
                own = torch.stack(
                    [
                        log_normal(w, m, s**2) + logs[keep][0],
                        log_normal(w, 0.0, s**2) + logs[keep][1],
                    ]
                )
                law = [
                    log_normal(w, c * mu, v) + logs[keep][k]
                    for k, c in ((0, 1.0), (1, 0.5))
                    for v in (wide, narrow)
                ]
                self.divergence = (
                    self.divergence + (own.logsumexp(0) - torch.stack(law).logsumexp(0)).sum()
                )
                weights.append(w)
            for w, b in zip(weights[:-2:2], weights[1:-2:2], strict=True):
                x = relu(linear(x, w, b))
            return linear(x, weights[-2], weights[-1])

    import math

    logs = {keep: (math.log(keep), math.log(1 - keep))}
    model = Filter()
    return model, lambda: model.divergence


def libraries(sizes: list[int]) -> dict:
    """name -> (model, penalty) for each peer that is installed."""
    import torch

    pairs = list(pairwise(sizes))

    def stack(layer):
        modules = []
        for i, o in pairs:
            modules += [layer(i, o), torch.nn.ReLU()]
        return torch.nn.Sequential(*modules[:-1])

    found = {}
    try:
        from torchbnn import BayesLinear, BKLLoss

        model = stack(lambda i, o: BayesLinear(0.0, 0.1, i, o))
        loss = BKLLoss(reduction="sum")
        found["torchbnn"] = (model, lambda model=model: loss(model))
    except ImportError:
        pass
    try:
        from blitz.losses import kl_divergence_from_nn
        from blitz.modules import BayesianLinear

        model = stack(BayesianLinear)
        found["blitz"] = (model, lambda model=model: kl_divergence_from_nn(model))
    except ImportError:
        pass
    try:
        from bayesian_torch.layers import LinearReparameterization
        from bayesian_torch.models.dnn_to_bnn import get_kl_loss

        class Plain(LinearReparameterization):
            def forward(self, x):
                return super().forward(x, return_kl=False)

        model = stack(Plain)
        found["bayesian-torch"] = (model, lambda model=model: get_kl_loss(model))
    except ImportError:
        pass
    return found


def ours(network: str, batch: int, keep: float) -> tuple[dict, int]:
    """Our modes, from the step benchmark; each call makes `step.UPDATES` updates."""
    import step

    made, _ = step.runners(network, batch, keep, ("full", "block"), "sgd")
    return made, step.UPDATES


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--network", default="784-400-400-10")
    parser.add_argument("--batch", type=int, default=128)
    arguments = parser.parse_args()
    harness.pin(1)
    try:
        import torch
    except ImportError:
        raise SystemExit("peers.py needs PyTorch: pip install 'hmnn[peers]'.") from None
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sizes = harness.sizes(arguments.network)
    x, y = torch.randn(arguments.batch, sizes[0]), torch.randint(0, sizes[-1], (arguments.batch,))
    functions, per_call, notes = {}, {}, {}
    for keep in (0.5, 1.0):
        made, updates = ours(arguments.network, arguments.batch, keep)
        for mode, function in made.items():
            name = f"hmnn {mode}, keep {keep}"
            functions[name], per_call[name], notes[name] = (
                function,
                updates,
                "DropConnect, moving prior" if keep < 1 else "Gaussian, moving prior",
            )
    peers = {"torch-filter, keep 0.5": (torch_filter(sizes, 0.5), "the same model, autodiff")}
    peers |= {name: (pair, LESS) for name, pair in libraries(sizes).items()}
    for name, ((model, penalty), note) in peers.items():
        functions[name], per_call[name], notes[name] = (
            torch_step(model, penalty, x, y, 1e-6),
            1,
            note,
        )
    seconds = harness.interleaved(functions, 25)
    rows = [
        {
            "name": name,
            "network": arguments.network,
            "batch": arguments.batch,
            "does": notes[name],
            "median_ms": 1e3 * statistics.median(times) / per_call[name],
            "min_ms": 1e3 * min(times) / per_call[name],
        }
        for name, times in seconds.items()
    ]
    if arguments.json:
        print(
            json.dumps(
                {"machine": harness.machine() | {"torch": torch.__version__}, "rows": rows},
                indent=1,
            )
        )
        return
    print(harness.machine() | {"torch": torch.__version__})
    for row in rows:
        print(
            f"{row['name']:>24} {row['median_ms']:8.2f} ms (min {row['min_ms']:.2f})  {row['does']}"
        )


if __name__ == "__main__":
    main()

"""Which activations a compiled PyTorch model saves for its backward pass, by the peak that they make.

PyTorch's own solvers fill a knapsack: what is saved stays within the budget. What is recomputed is not in that sum, though
a long chain of it is live at once, and so a smaller budget may peak higher. Here a choice is played through: the backward
pass runs, what it needs and was not saved is recomputed at its first use, as the partitioner orders it, and every value
lives until its last use. Of the choices looked at, those remain that no other beats in peak and in recomputation; a budget
takes the one with the least recomputation whose peak it allows, else the one with the lowest peak. So a smaller budget never
peaks higher.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

try:
    from torch._inductor.custom_graph_pass import CustomKnapsackSolver as _Base
except ImportError:  # before PyTorch 2.10 any callable is taken
    _Base = object

PARTS = 8  # a group that is saved in part is saved in eighths


class _Play:
    """The backward pass in numbers: what each step needs, and what that is made of."""

    def __init__(self, joint_graph: Any, node_info: Any) -> None:
        forward = list(node_info.required_fw_nodes)
        self.index = {node: i for i, node in enumerate(forward)}
        given = set(node_info.inputs)
        self.is_given = [node in given or node.op == "placeholder" for node in forward]
        self.inputs = [[self.index[n] for n in node.all_input_nodes if n in self.index] for node in forward]
        storages: dict[Any, int] = {}
        self.storage = [storages.setdefault(_storage_of(node), len(storages)) for node in forward]
        self.bytes = [0] * len(storages)
        for node, storage in zip(forward, self.storage):
            self.bytes[storage] = max(self.bytes[storage], _bytes_of(node))
        free = {storage for storage, is_given in zip(self.storage, self.is_given) if is_given}
        for storage in free:
            self.bytes[storage] = 0
        backward = (node for node in joint_graph.nodes if node in node_info.required_bw_nodes and node.op != "output")
        reads = ([self.index[n] for n in node.all_input_nodes if n in self.index] for node in backward)
        self.reads = [needed for needed in reads if needed]

    def order(self, saved: set[int]) -> list[tuple[int, list[int]]]:
        """(node or -1 for a step of the backward pass, what it reads), as they run."""
        done = [is_given or i in saved for i, is_given in enumerate(self.is_given)]
        steps: list[tuple[int, list[int]]] = []
        for needed in self.reads:
            stack, found = list(needed), []
            while stack:
                node = stack.pop()
                if not done[node]:
                    done[node] = True
                    found.append(node)
                    stack += self.inputs[node]
            steps += [(node, self.inputs[node]) for node in sorted(found)]
            steps.append((-1, needed))
        return steps

    def peak(self, saved: set[int]) -> int:
        """The most bytes of saved and recomputed values that are live at once."""
        steps = self.order(saved)
        last: dict[int, int] = {}
        born = {self.storage[node]: 0 for node in saved}
        for place, (node, reads) in enumerate(steps):
            for read in reads:
                last[self.storage[read]] = place
            if node >= 0:
                born.setdefault(self.storage[node], place)
                last.setdefault(self.storage[node], place)
        changes = [0] * (len(steps) + 2)
        for storage, place in born.items():
            if storage in last:  # what the backward pass never reads is not kept for it
                changes[place] += self.bytes[storage]
                changes[last[storage] + 1] -= self.bytes[storage]
        live = most = 0
        for change in changes:
            live += change
            most = max(most, live)
        return most

    def recomputed(self, saved: set[int]) -> set[int]:
        return {node for node, _ in self.order(saved) if node >= 0}


def _storage_of(node: Any) -> Any:
    value = node.meta.get("val")
    try:
        return value.untyped_storage()._cdata
    except (AttributeError, RuntimeError, NotImplementedError):
        return node


def _bytes_of(node: Any) -> int:
    from torch._functorch.partitioners import _size_of

    return int(_size_of(node)) if "val" in node.meta else 0


def _kind(node: Any) -> tuple[Any, ...]:
    """What equal operators of equal layers have in common."""

    def shape(n: Any) -> Any:
        value = n.meta.get("val")
        return tuple(map(str, getattr(value, "shape", ())))

    return (str(node.target), shape(node), tuple((str(n.target), shape(n)) for n in node.all_input_nodes))


class _Choices:
    """Choices of what is saved, with peak and recomputation: those that no other beats."""

    def __init__(self, play: _Play, nodes: Sequence[Any], runtimes: Sequence[float]) -> None:
        self.play, self.runtimes = play, runtimes
        self.at = [play.index[node] for node in nodes]
        self.found: dict[frozenset[int], tuple[int, float]] = {}
        groups: dict[tuple[Any, ...], list[int]] = {}
        for i, node in sorted(enumerate(nodes), key=lambda pair: play.index[pair[1]]):
            groups.setdefault(_kind(node), []).append(i)
        self.groups = list(groups.values())

    def look(self, saved: Iterable[int]) -> tuple[int, float]:
        """(peak, recomputation) of a set of positions in the list of nodes."""
        key = frozenset(saved)
        if key not in self.found:
            places = {self.at[i] for i in key}
            again = self.play.recomputed(places)
            cost = sum(runtime for place, runtime in zip(self.at, self.runtimes) if place in again)
            self.found[key] = (self.play.peak(places), cost)
        return self.found[key]

    def search(self) -> None:
        """From everything saved, and from nothing, group by group: what lowers the peak most for its cost."""
        whole = frozenset(i for group in self.groups for i in group)
        self._descend(whole, lambda saved, group: saved - frozenset(group))
        self._descend(frozenset(), lambda saved, group: saved | frozenset(group))
        for saved, _ in self.front():
            for group in self.groups:  # groups in part: their first members, or their last
                for part in range(1, PARTS):
                    cut = len(group) * part // PARTS
                    self.look((saved - set(group)) | set(group[:cut]))
                    self.look((saved - set(group)) | set(group[cut:]))

    def _descend(self, saved: frozenset[int], change: Any) -> None:
        left = list(self.groups)
        self.look(saved)
        while left:
            best = min(left, key=lambda group: self.look(change(saved, group)))
            saved = change(saved, best)
            left.remove(best)

    def front(self) -> list[tuple[frozenset[int], tuple[int, float]]]:
        """By rising peak and falling recomputation."""
        front: list[tuple[frozenset[int], tuple[int, float]]] = []
        ranked = sorted(self.found.items(), key=lambda item: (item[1], sorted(item[0])))
        for saved, (peak, cost) in ranked:
            if not front or cost < front[-1][1][1]:
                front.append((saved, (peak, cost)))
        return front


class BudgetSolver(_Base):  # type: ignore[misc]
    """Keeps the peak of activations within torch._functorch.config.activation_memory_budget, and lets it fall as the
    budget does:

        torch._functorch.config.activation_memory_budget_solver = weir.torch.BudgetSolver()
        torch._functorch.config.activation_memory_budget = 0.2

    The budget counts as PyTorch counts it: 0 is the inputs alone, 1 is what is saved without a budget. Here it bounds what
    is saved and recomputed at once, not what is saved alone. A budget that no choice keeps gives the lowest peak there is.
    """

    def __call__(
        self,
        memory: list[float],
        joint_graph: Any,
        max_memory: float,
        node_info: Any,
        all_recomputable_banned_nodes: list[Any],
    ) -> tuple[list[int], list[int]]:
        from torch._functorch.partitioners import estimate_runtime

        nodes = all_recomputable_banned_nodes
        choices = _Choices(_Play(joint_graph, node_info), nodes, [float(estimate_runtime(node)) for node in nodes])
        choices.search()
        front = choices.front()
        largest = max(range(len(nodes)), key=lambda i: memory[i])
        scale = memory[largest] / max(_bytes_of(nodes[largest]), 1)
        within = [saved for saved, (peak, _) in front if peak * scale <= max_memory]
        saved = within[-1] if within else front[0][0]
        return sorted(saved), [i for i in range(len(nodes)) if i not in saved]

    def uuid(self) -> Any:
        """For PyTorch's cache of compiled graphs: another number wherever choices change."""
        return "weir.torch.BudgetSolver 1"

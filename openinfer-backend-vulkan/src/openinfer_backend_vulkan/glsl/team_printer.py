"""Threads of a group as GLSL: their numbers along nested loops, and how they combine their scalars."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from openinfer.expr import tree
from openinfer.loops import Peer, Register
from openinfer_backend_vulkan.glsl.index_text import counter_text, name_text
from openinfer_backend_vulkan.glsl.joins import SHUFFLED, Team, team_of
from openinfer_backend_vulkan.glsl.lanes import LanePrinter
from openinfer_backend_vulkan.glsl.loop_nests import extent_of

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from openinfer.affine import Var
    from openinfer.loops import Join, Kernel
    from openinfer_backend_vulkan.glsl.shaders import ShaderTarget

_BASIC, _SHUFFLE = "GL_KHR_shader_subgroup_basic", "GL_KHR_shader_subgroup_shuffle"


class TeamPrinter(LanePrinter):
    """Prints joins.

    Attributes:
        shared: declarations of what the threads of a group share.
        axes: the enclosing loops over threads.
        turns: how many loops of the program enclose it within a thread.
    """

    def __init__(self, kernel: Kernel, target: ShaderTarget) -> None:
        super().__init__(kernel, target)
        self.shared: list[str] = []
        self.axes: tuple[Var, ...] = ()
        self.turns = 0

    def join(self, join: Join) -> None:
        """Append what gives all threads along a loop the same scalars."""
        team = team_of(join, self.axes, [extent_of(var) for var in self.axes])
        if team.size == 1:
            return
        types = {pair.name: self.held_type(pair.value.dtype) for pair in join.pairs}
        shuffles = team.shuffles(self.target.subgroup) if set(types.values()) <= SHUFFLED else ()
        if not shuffles:
            self._through_memory(join, team, types)
            return
        self.extensions.update(dict.fromkeys((_BASIC, _SHUFFLE)))
        for distance in shuffles:
            others = {name: f"subgroupShuffleXor({name_text('r', name)}, {distance}u)" for name in types}
            self._combine(join, types, others, f"(gl_SubgroupInvocationID & {distance}u) != 0u")
        parts = team.parts(self.target.subgroup)
        if parts > 1:
            self._over_subgroups(join, team, types, parts)

    def _over_subgroups(self, join: Join, team: Team, types: Mapping[str, str], parts: int) -> None:
        names = {name: self._shared(name, kind, team.threads // self.target.subgroup) for name, kind in types.items()}
        with self.inside("if (gl_SubgroupInvocationID == 0u)"):
            for name, array in names.items():
                self.line(f"{array}[gl_SubgroupID] = {name_text('r', name)};")
        self.line("barrier();")
        first = "0u" if team.size == team.threads else f"uint(thread / {team.size}) * {parts}u"
        for name, array in names.items():
            self.line(f"{name_text('r', name)} = {array}[{first}];")
        part = self.fresh("part")
        with self.inside(f"for (uint {part} = 1u; {part} < {parts}u; ++{part})"):
            self._combine(join, types, {name: f"{array}[{first} + {part}]" for name, array in names.items()}, "")
        self._again()

    def _through_memory(self, join: Join, team: Team, types: Mapping[str, str]) -> None:
        names = {name: self._shared(name, kind, team.threads) for name, kind in types.items()}
        at = counter_text(join.over)
        self._put(names)
        self.line("barrier();")
        for half, left in team.halves():
            with self.inside(f"if ({at} < {left - half})"):
                others = {name: f"{array}[thread + {half * team.stride}]" for name, array in names.items()}
                self._combine(join, types, others, "")
                self._put(names)
            self.line("barrier();")
        first = f"thread - {at} * {team.stride}" if team.stride > 1 else f"thread - {at}"
        for name, array in names.items():
            self.line(f"{name_text('r', name)} = {array}[{first}];")
        self._again()

    def _put(self, names: Mapping[str, str]) -> None:
        for name, array in names.items():
            self.line(f"{array}[thread] = {name_text('r', name)};")

    def _again(self) -> None:
        """The next iteration of a loop writes the same shared memory."""
        if self.turns:
            self.line("barrier();")

    def _shared(self, name: str, kind: str, size: int) -> str:
        made = self.fresh(f"{name_text('j', name)}_")
        self.shared.append(f"shared {kind} {made}[{size}];")
        return made

    def _combine(self, join: Join, types: Mapping[str, str], others: Mapping[str, str], is_later: str) -> None:
        """Append the scalars of two threads as one; those of the thread with the lower number come first."""
        outside = self.known
        with self.inside(""):
            names = {name: self.fresh("p") for name in types}
            for name, kind in types.items():
                self.line(f"{kind} {names[name]} = {others[name]};")
            firsts = {name: name_text("r", name) for name in types}
            if is_later and not all(_commutes(pair.value.expr) for pair in join.pairs):
                later = self.fresh("p")
                self.line(f"bool {later} = {is_later};")
                for name, kind in types.items():
                    own, other = firsts[name], names[name]
                    firsts[name], names[name] = self.fresh("p"), self.fresh("p")
                    self.line(f"{kind} {firsts[name]} = {later} ? {other} : {own};")
                    self.line(f"{kind} {names[name]} = {later} ? {own} : {other};")
            dtypes = {pair.name: pair.value.dtype for pair in join.pairs}
            self.known = {**outside, **{Register(name, dtypes[name]): text for name, text in firsts.items()}}
            self.known |= {Peer(name, dtypes[name]): text for name, text in names.items()}
            results = {pair.name: self.value(pair.value) for pair in join.pairs}
            for name, text in results.items():
                self.line(f"{name_text('r', name)} = {text};")
        self.known = outside

    @contextmanager
    def inside(self, head: str) -> Generator[None]:
        """Put what is appended meanwhile into a block."""
        self.line(f"{head} {{".lstrip())
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")


def _commutes(expr: tree.Expr) -> bool:
    """Return whether a join yields the same bits for either order of two threads."""
    match expr:
        case tree.Apply("add" | "mul", (tree.Input(), tree.Input())):
            return True
        case _:
            return False

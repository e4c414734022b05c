"""Executes the PTX of what one call launches, in order, and keeps whose instructions wrote what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from layoutgen.cpu import LaunchReport, Tensor, launch, parse_ptx
from layoutgen.cpu.launch import Progress
from layoutgen.toolchain import Build


@dataclass(frozen=True)
class Execution:
    """One execution: its name, its tensors, and of each the texts of the instructions that could have written it.

    `texts` has for every tensor one tuple for each launch that had it as an argument, in order.
    """

    name: str
    tensors: Mapping[str, Tensor]
    texts: Mapping[str, tuple[tuple[str, ...], ...]]

    @classmethod
    def of(
        cls, name: str, tensors: Mapping[str, Tensor], builds: Sequence[Build], texts: Sequence[tuple[str, ...]]
    ) -> Execution:
        """`texts` are the instructions of each of the `builds`."""
        taken = [{argument for argument, _ in build.arguments} for build in builds]
        return cls(
            name,
            tensors,
            {
                tensor: tuple(own for own, some in zip(texts, taken, strict=True) if tensor in some)
                for tensor in tensors
            },
        )

    def writer(self, tensor: str, index: tuple[int, ...]) -> str:
        """Return the instruction that wrote an element last, with its source line, or "nobody"."""
        found = self.tensors[tensor].written_by(index)
        return "nobody" if found is None else self.texts[tensor][found.launch][found.instruction]


def execute_ptx(
    builds: Sequence[Build], tensors: Mapping[str, Tensor], mma: str = "v100", progress: Progress | None = None
) -> tuple[tuple[LaunchReport, ...], Execution]:
    """Execute the PTX of what one call launches, in order. Arguments that name one of the `tensors` are that tensor."""
    programs = [parse_ptx(build.ptx) for build in builds]
    reports = tuple(
        launch(
            program,
            build.grid,
            build.num_warps,
            [tensors.get(name, value) for name, value in build.arguments],
            mma=mma,
            shared_bytes=build.shared_bytes,
            progress=progress,
        )
        for build, program in zip(builds, programs, strict=True)
    )
    texts = [tuple(f"`{i.text}` ({i.source})" for i in program.instructions) for program in programs]
    return reports, Execution.of("PTX", tensors, builds, texts)

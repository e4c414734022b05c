"""layoutgen: from the fragment mapping of a tensor-core instruction to proved layouts and kernels."""

__version__ = "0.1.0"

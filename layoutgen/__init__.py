"""layoutgen."""

"""sciagent: scientific-discovery campaigns on a priced ladder of verifiers."""

__version__ = "0.1.0"

"""The schedulers that a campaign can name: rules that go up the ladder one rung at a time, and `priced`."""

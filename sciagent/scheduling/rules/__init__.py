"""The schedulers that a campaign can name: rules that climb the ladder rung by rung, and `priced`."""

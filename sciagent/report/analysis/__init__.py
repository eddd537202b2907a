"""The analyses of a report: audit, rungs, rejections, predictions and proposers."""

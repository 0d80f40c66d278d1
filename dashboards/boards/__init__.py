"""The dashboards, one module each, one function a panel."""

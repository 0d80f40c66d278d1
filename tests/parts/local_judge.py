"""Environment variables for the local judge alone: the default panel also has the shipped model, ten times slower."""

LOCAL_JUDGE = {"STREAMJURY__JUDGES__PANEL": "[{kind: local}]"}

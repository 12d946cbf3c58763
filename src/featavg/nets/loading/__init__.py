"""Networks of others: ONNX files, state dicts and torch Sequentials as layers of ReLUs."""

"""The local judge's reading of text: tokens, stems, sentences, quantities, denials and set phrases."""

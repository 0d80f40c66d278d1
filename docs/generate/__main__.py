"""`python -m docs.generate`: writes all generated pages."""

from docs.generate.pages import write_pages

if __name__ == "__main__":
    write_pages()

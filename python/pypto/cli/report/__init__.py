"""`pypto bench --report`: one page that holds what was measured, for people who have nothing but a browser."""

from pypto.cli.report.page import write_report

__all__ = ["write_report"]

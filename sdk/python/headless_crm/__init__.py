"""The Python client of the Headless CRM API."""

from ._transport import CallOptions, Credential, CrmError
from .client import Client

__all__ = ["CallOptions", "Client", "Credential", "CrmError"]

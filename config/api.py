"""The control API under ``/api/v1`` and the operations of files and batches under ``/v1``, on one
page. What the data plane serves is described there too, though it does not pass here.
"""

from __future__ import annotations

from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema

from config.inference_paths import INFERENCE_PATHS, STREAMED_PATHS
from gateway.api import router as gateway
from tenants.api import router as tenants
from tenants.control.problems import tell_problems
from workers.api import router as workers
from workers.api import tell_refusals

DESCRIPTION = """Everything a page can do. Authentication: an API key of scope `manage` as
`Authorization: Bearer`, or the session of a signed-in person with its CSRF token."""


class ControlApi(NinjaAPI):
    def get_openapi_schema(self, *args: Any, **kwargs: Any) -> OpenAPISchema:
        schema = super().get_openapi_schema(*args, **kwargs)
        for path, operations in (*INFERENCE_PATHS.items(), *STREAMED_PATHS.items()):
            schema["paths"].setdefault(path, {}).update(operations)
        return schema


api = ControlApi(
    title="Fairway",
    version="1",
    description=DESCRIPTION,
    docs_url="/api/v1/docs",
    openapi_url="/api/v1/openapi.json",
)
api.add_router("/api/v1", tenants)
api.add_router("/api/v1", gateway)
api.add_router("/v1", workers)
tell_problems(api)
tell_refusals(api)

"""Connection factories as projects write them for clusters, which django-redis leaves to them."""

from __future__ import annotations

from typing import Any

import redis
from django_redis.pool import ConnectionFactory
from redis.cluster import RedisCluster


class ClusterFactory(ConnectionFactory):  # type: ignore[misc]
    """Gives every alias the one cluster client of its URL."""

    _clusters: dict[str, RedisCluster] = {}

    def connect(self, url: str) -> RedisCluster:
        if url not in self._clusters:
            params = {**self.make_connection_params(url), **self.pool_cls_kwargs}
            params.pop("parser_class")
            self._clusters[url] = RedisCluster.from_url(**params)
        return self._clusters[url]

    def disconnect(self, connection: RedisCluster) -> None:
        connection.close()

    @classmethod
    def forget(cls) -> None:
        for client in cls._clusters.values():
            client.close()
        cls._clusters.clear()


class PlainFactory(ConnectionFactory):  # type: ignore[misc]
    """Makes an ordinary client in a way of its own."""

    def connect(self, url: str) -> Any:
        return redis.Redis.from_url(url, decode_responses=True, **self.pool_cls_kwargs)

"""The monitor's Faust app: closed to the outside, reading committed records only."""

import faust
from aiokafka import codec
from faust.types.auth import CredentialsT

from stream.config.model import Config
from stream.config.sections.kafka import KafkaConfig
from stream.errors import StageError
from stream.kafka.codecs import CODECS, require_codecs
from stream.monitor.faust_app.consumer import replace_consumer
from stream.monitor.faust_app.header_names import accept_any_header_name


def make_app(config: Config, credentials: CredentialsT | None, *, embedded: bool, folder: str) -> faust.App:
    """Make a Faust app with all of Faust's own ports closed, and without agents."""
    readable = [name for name in CODECS if getattr(codec, f"has_{name}")()]
    require_codecs("the monitor", readable, "install the package cramjam")
    app = faust.App(
        config.monitor.group,
        broker=_broker_url(config.kafka),
        broker_credentials=credentials,
        store="memory://",
        datadir=folder,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        processing_guarantee="at_least_once",
        consumer_auto_offset_reset="earliest",
        broker_session_timeout=10.0,
        broker_heartbeat_interval=3.0,
        # A broker that has just restarted may list no topics. A consumer that joins its group then gets no partitions
        # until it asks again, by default after five minutes.
        consumer_metadata_max_age_ms=10_000,
        stream_buffer_maxsize=256,
        # The embedded broker's commit markers have no valid checksum; a real broker's have.
        broker_check_crcs=not embedded,
        # Faust's own handlers would replace the program's.
        loghandlers=[],
    )
    _refuse_surprises(app, config)
    accept_any_header_name()
    replace_consumer(app, committed_only=not embedded)  # the embedded broker does not isolate transactions
    return app


def _broker_url(kafka: KafkaConfig) -> str:
    return ";".join(f"kafka://{address.strip()}" for address in kafka.bootstrap.split(","))


def _refuse_surprises(app: faust.App, config: Config) -> None:
    """Raise if an environment variable overrides our settings: Faust reads several without a prefix."""
    effective = {"broker": [str(url) for url in app.conf.broker], "web_enabled": app.conf.web_enabled}
    wanted = {"broker": _broker_url(config.kafka).split(";"), "web_enabled": False}
    for name, value in wanted.items():
        if effective[name] != value:
            raise StageError(
                f"an environment variable changes Faust's {name} to {effective[name]}; "
                f"unset BROKER_URL, FAUST_{name.upper()} and the like"
            )

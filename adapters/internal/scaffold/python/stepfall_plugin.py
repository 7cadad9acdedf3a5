"""What a stepfall plugin in Python needs: protocol, configuration, logs.

It needs grpcio and protobuf, and cryptography for mutual TLS, which hosts ask
for unless the policy says otherwise. A plugin is a class with a schema:

    class Words:
        FIELDS = [Field("words", "integer", default=5, min=1, doc="...")]

        def __init__(self, config, log): ...
        def verify(self, request, report):
            # With calls_models=True below, a model of the policy can be asked; the
            # host makes the call, keeps the key and counts the cost:
            # answer = ask_model("judge", "Is this good? " + request.answer.text)
            return Verdict(...)

    if __name__ == "__main__":
        main(Plugin("verifier-words", "0.1.0", "Counts words.", verifier=Words))

This file is yours: it comes with the project and depends on nothing of stepfall.
"""

import base64
import contextvars
import datetime
import json
import os
import queue
import signal
import sys
import tempfile
import threading
import traceback
from concurrent import futures

COOKIE = ("STEPFALL_PLUGIN", "7f3e1c0a-step-by-step-fall")
VERSIONS = [1]
LARGEST = 64 << 20
QUALITY, COST, VERIFIER = 1, 2, 3
ROLE_NAMES = {QUALITY: "quality-estimator", COST: "cost-estimator", VERIFIER: "verifier"}
SERVICE = "stepfall.plugin.v1."


class Field:
    """One argument of the config; type is string, number, integer, bool, duration, list(T) or map(T)."""

    def __init__(self, name, type, required=False, default=None, min=None, max=None, enum=(), sensitive=False, doc=""):
        self.name, self.type, self.required, self.default = name, type, required, default
        self.min, self.max, self.enum, self.sensitive, self.doc = min, max, list(enum), sensitive, doc

    def as_json(self):
        keys = ("name", "type", "required", "default", "min", "max", "enum", "sensitive", "doc")
        return {k: getattr(self, k) for k in keys if getattr(self, k) not in (None, False, [], "")}


class Verdict:
    """passed, failed or inconclusive, with a score and a confidence in [0, 1].

    The confidence is the probability that the outcome is right. 0 means 1: a judge
    that computes a certainty of 0 says inconclusive.
    """

    OUTCOMES = {"passed": 1, "failed": 2, "inconclusive": 3}

    def __init__(self, outcome, score=0.0, confidence=0.0, evidence="", cost_usd=0.0):
        if outcome not in self.OUTCOMES:
            raise ValueError("the outcome %r is none of %s" % (outcome, ", ".join(self.OUTCOMES)))
        self.outcome, self.score, self.confidence = outcome, score, confidence
        self.evidence, self.cost_usd = evidence, cost_usd


class Plugin:
    """A plugin: its name and one class for each role.

    verifier has verify(request, report); quality has estimate_quality(item),
    cost has estimate_cost(item), which return a list with a (mean, std_dev) or
    None for each of item.models. Their constructors get config and log, and raise
    ConfigError when the config cannot be used.
    """

    def __init__(self, name, version, doc="", verifier=None, quality=None, cost=None, calls_models=False):
        self.name, self.version, self.doc, self.calls_models = name, version, doc, calls_models
        self.roles = {k: v for k, v in ((QUALITY, quality), (COST, cost), (VERIFIER, verifier)) if v is not None}

    def describe(self):
        return {
            "name": self.name,
            "version": self.version,
            "doc": self.doc,
            "roles": [{"role": ROLE_NAMES[k], "config": {"fields": [f.as_json() for f in c.FIELDS]}} for k, c in self.roles.items()],
        }


class ModelError(Exception):
    """A model did not answer; limit_reached says that the policy allows no more calls now."""

    def __init__(self, message, limit_reached=False):
        super().__init__(message)
        self.limit_reached = limit_reached


class Models:
    """Asks models through the host. The questions go out by one stream for the whole process."""

    def __init__(self):
        self.call_id = contextvars.ContextVar("call_id", default="")
        self.lock, self.last, self.waiting, self.out = threading.Lock(), 0, {}, None

    def ask(self, model, text, max_output_tokens=0, system=""):
        import plugin_pb2 as pb

        query = pb.Query(max_output_tokens=max_output_tokens)
        for role, part in (("system", system), ("user", text)):
            if part:
                query.messages.add(role=role).parts.add(text=part)
        answers = queue.Queue()
        with self.lock:
            if self.out is None:
                raise ModelError("the host does not call models for this plugin")
            self.last += 1
            self.waiting[self.last] = answers
            self.out.put(pb.ConnectResponse(id=self.last, call_id=self.call_id.get(), model_call=pb.ModelCall(model=model, query=query)))
        reply = answers.get()
        if reply is None:
            raise ModelError("the host closed the connection")
        if reply.error:
            raise ModelError(reply.error, reply.limit_reached)
        return reply.answer

    def serve(self, requests, context):
        """Serves the stream Connect: yields questions, delivers answers."""
        out = queue.Queue()
        with self.lock:
            self.out = out
        context.add_callback(lambda: out.put(None))
        context.send_initial_metadata(())  # now the host knows that it can be asked

        def deliver():
            try:
                for reply in requests:
                    with self.lock:
                        answers = self.waiting.pop(reply.id, None)
                    if answers:
                        answers.put(reply)
            except Exception:  # the stream has ended
                pass
            with self.lock:
                left, self.waiting, self.out = self.waiting, {}, None
            for answers in left.values():
                answers.put(None)

        threading.Thread(target=deliver, daemon=True).start()
        yield from iter(out.get, None)


_models = Models()


def ask_model(model, text, max_output_tokens=0, system=""):
    """Asks a model of the policy and returns its answer, which has text and cost_usd.

    It works in the thread in which the plugin was called, until it returns, and
    raises ModelError. The plugin must be made with calls_models=True.
    """
    return _models.ask(model, text, max_output_tokens, system)


class ConfigError(Exception):
    """The config cannot be used; path leads to the value."""

    def __init__(self, summary, path=(), detail=""):
        super().__init__(summary)
        self.summary, self.path, self.detail = summary, list(path), detail


def has_type(value, type):
    """Reports whether a value of JSON has the type of the schema."""
    if type.startswith("list(") and type.endswith(")"):
        return isinstance(value, list) and all(has_type(v, type[5:-1]) for v in value)
    if type.startswith("map(") and type.endswith(")"):
        return isinstance(value, dict) and all(has_type(v, type[4:-1]) for v in value.values())
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {
        "string": isinstance(value, str),
        "number": number,
        "integer": number and value == int(value),
        "bool": isinstance(value, bool),
        "duration": number or isinstance(value, str),
        "object": isinstance(value, dict),
        "any": True,
    }.get(type, False)


def check_config(fields, config):
    """Returns the config with defaults, and a list of ConfigError."""
    out, errors, known = {}, [], {f.name: f for f in fields}
    for name in sorted(set(config) - set(known)):
        errors.append(ConfigError("unknown argument", [name], "known are: " + ", ".join(known)))
    for f in fields:
        value = config.get(f.name)
        if value is None:
            if f.required:
                errors.append(ConfigError("required argument is missing", [f.name], f.doc))
            elif f.default is not None:
                out[f.name] = f.default
            continue
        shown = "the value" if f.sensitive else json.dumps(value)[:60]
        if not has_type(value, f.type):
            errors.append(ConfigError("%s is not a %s" % (shown, f.type), [f.name], f.doc))
            continue
        size = value if isinstance(value, (int, float)) else len(value) if hasattr(value, "__len__") else None
        if f.min is not None and size is not None and size < f.min:
            errors.append(ConfigError("%s is too small" % shown, [f.name], "the minimum is %s" % f.min))
        elif f.max is not None and size is not None and size > f.max:
            errors.append(ConfigError("%s is too large" % shown, [f.name], "the maximum is %s" % f.max))
        elif f.enum and value not in f.enum:
            errors.append(ConfigError("%s is not allowed" % shown, [f.name], "allowed are: %s" % f.enum))
        out[f.name] = int(value) if f.type == "integer" else value
    return out, errors


def log(level, message, **values):
    """Writes one entry to the host's log: level is debug, info, warn or error."""
    entry = {"@level": level, "@message": message, "@timestamp": datetime.datetime.now(datetime.timezone.utc).isoformat()}
    entry.update(values)
    os.write(2, (json.dumps(entry, default=str) + "\n").encode())


USAGE = """{0} {1} is a stepfall plugin: a policy names it and stepfall starts it.

Usage:
  {0} describe             what it is and the schemas of its configs, as JSON
  {0} docs                 its documentation, as Markdown
  {0} check [ROLE] FILE    check a config in JSON; - reads standard input"""


def main(plugin):
    """Runs the program: serves for a host, answers a person."""
    if os.environ.get(COOKIE[0]) == COOKIE[1]:
        serve(plugin)
        return
    verb, rest = "".join(sys.argv[1:2]), sys.argv[2:]
    if verb == "describe" and not rest:
        print(json.dumps(plugin.describe(), indent=2))
    elif verb == "docs" and not rest:
        print(docs(plugin))
    elif verb == "check" and len(rest) in (1, 2):
        sys.exit(check(plugin, rest))
    elif verb in ("help", "--help", "-h"):
        print(USAGE.format(plugin.name, plugin.version))
    else:
        print(USAGE.format(plugin.name, plugin.version), file=sys.stderr)
        sys.exit(2)


def docs(plugin):
    """Returns the documentation in Markdown: what it is for, its arguments and a block to start from."""
    lines = ["# " + plugin.name, "", "Version %s." % plugin.version]
    if plugin.doc:
        lines += ["", plugin.doc.strip()]
    for kind, cls in plugin.roles.items():
        lines += ["", "## As a " + ROLE_NAMES[kind].replace("-", " "), ""]
        if cls.FIELDS:
            lines += ["| argument | type | default | meaning |", "| --- | --- | --- | --- |"]
        for f in cls.FIELDS:
            default = "required" if f.required else "" if f.default is None else "`%s`" % json.dumps(f.default)
            meaning = [f.doc] if f.doc else []
            meaning += ["At least %s." % f.min] if f.min is not None else []
            meaning += ["At most %s." % f.max] if f.max is not None else []
            meaning += ["One of %s." % ", ".join("`%s`" % e for e in f.enum)] if f.enum else []
            lines.append("| `%s` | %s | %s | %s |" % (f.name, f.type, default, " ".join(meaning).replace("|", "\\|")))
        if not cls.FIELDS:
            lines.append("No arguments.")
        lines += ["", "```hcl", '%s "example" {' % ("verifier" if kind == VERIFIER else "estimator"), '  plugin = "%s"' % plugin.name]
        if cls.FIELDS:
            lines += ["  config {"] + ["    %s = %s" % (f.name, json.dumps(example(f))) for f in cls.FIELDS] + ["  }"]
        lines += ["}", "```"]
    return "\n".join(lines)


def example(field):
    """Returns a value that the field may have."""
    if field.default is not None:
        return field.default
    if field.enum:
        return field.enum[0]
    least = 0 if field.min is None else field.min
    return {"number": least, "integer": least, "bool": False, "list": [], "map": {}, "object": {}, "duration": "10s"}.get(field.type.split("(")[0], "...")


def check(plugin, args):
    """Checks a config as the host would, the constructor included; returns the exit code."""
    kinds = {ROLE_NAMES[k]: k for k in plugin.roles}
    name = args[0] if len(args) == 2 else next(iter(kinds))
    if name not in kinds:
        print("%s has no role %s: it has %s" % (plugin.name, name, ", ".join(kinds)), file=sys.stderr)
        return 2
    try:
        with sys.stdin if args[-1] == "-" else open(args[-1]) as file:
            config = json.load(file)
        if not isinstance(config, dict):
            raise ValueError("the config is not a JSON object")
    except (OSError, ValueError) as e:
        print("reading the config: %s" % e, file=sys.stderr)
        return 1
    cls = plugin.roles[kinds[name]]
    config, errors = check_config(cls.FIELDS, config)
    if not errors:
        try:
            cls(config, log)
        except ConfigError as e:
            errors.append(e)
        except Exception:
            traceback.print_exc()
            print("%s failed with this config" % cls.__name__, file=sys.stderr)
            return 1
    for e in errors:
        print("error: %s%s%s" % (".".join(map(str, e.path)) + ": " if e.path else "", e.summary, "\n  " + e.detail if e.detail else ""))
    if not errors:
        print("the config is good")
    return 1 if errors else 0


def failed(what, problem):
    """Logs an exception with its traceback."""
    log("error", what, error=repr(problem), traceback="".join(traceback.format_exception(type(problem), problem, problem.__traceback__)))


def serve(plugin):
    """Serves until the host says that it is over."""
    # Whatever libraries print must not disturb the handshake, which has standard output for itself.
    handshake = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    watch_lifeline()
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    try:
        import cryptography
        import google.protobuf
        import grpc
    except ImportError as e:
        sys.exit("%s has no module %s: install grpcio, protobuf and cryptography for it, or name another interpreter in the first line of %s" % (sys.executable, e.name, sys.argv[0]))

    stop = threading.Event()
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=32),
        options=[("grpc.max_receive_message_length", LARGEST), ("grpc.max_send_message_length", LARGEST), ("grpc.so_reuseport", 0)],
    )
    for handler in host_services(grpc, stop) + plugin_services(grpc, plugin):
        server.add_generic_rpc_handlers((handler,))
    path = tempfile.mktemp(prefix="plugin", dir=os.environ.get("PLUGIN_UNIX_SOCKET_DIR"))
    client_cert = os.environ.get("PLUGIN_CLIENT_CERT")
    certificate = ""
    if client_cert:
        credentials, certificate = tls(grpc, client_cert)
        server.add_secure_port("unix:" + path, credentials)
    else:
        server.add_insecure_port("unix:" + path)
    server.start()

    offered = [int(v) for v in os.environ.get("PLUGIN_PROTOCOL_VERSIONS", "1").split(",") if v.strip().isdigit()]
    common = sorted(set(offered) & set(VERSIONS))
    version = common[-1] if common else VERSIONS[0]  # the host reports a mismatch
    handshake.write("1|%d|unix|%s|grpc|%s\n" % (version, path, certificate))
    handshake.flush()
    stop.wait()
    server.stop(0.2).wait()
    if os.path.exists(path):
        os.unlink(path)
    os._exit(0)  # threads of calls that do not end must not keep the process


def watch_lifeline():
    """Ends the process and its children when the host has gone."""
    fd = os.environ.get("STEPFALL_PLUGIN_LIFELINE_FD")
    if not fd:
        return
    os.set_inheritable(int(fd), False)

    def watch():
        while os.read(int(fd), 1):
            pass
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def tls(grpc, client_cert):
    """Makes a certificate for this process; only the host that started it may connect."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    pem = cert.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    credentials = grpc.ssl_server_credentials([(private, pem)], root_certificates=client_cert.encode(), require_client_auth=True)
    return credentials, base64.b64encode(cert.public_bytes(serialization.Encoding.DER)).rstrip(b"=").decode()


def host_services(grpc, stop):
    """What go-plugin asks of every plugin. The messages are so small that their bytes are written out."""

    def serving(request, context):
        return b"\x08\x01"

    def shutdown(request, context):
        stop.set()
        return b""

    def stdio(request, context):
        ended = threading.Event()
        context.add_callback(ended.set)
        ended.wait()
        return iter(())

    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
    return [
        grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": unary(serving)}),
        grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": unary(shutdown)}),
        grpc.method_handlers_generic_handler("plugin.GRPCStdio", {"StreamStdio": stream(stdio)}),
    ]


def plugin_services(grpc, plugin):
    """The services of stepfall's protocol."""
    import plugin_pb2 as pb
    from google.protobuf import json_format

    lock, instance, role = threading.Lock(), [], []

    def get_info(request, context):
        info = pb.GetInfoResponse(name=plugin.name, version=plugin.version, doc=plugin.doc)
        if plugin.calls_models:
            info.features.append("model_calls")
        for kind, cls in plugin.roles.items():
            r = info.roles.add(role=kind)
            for f in cls.FIELDS:
                w = r.schema.fields.add(name=f.name, type=f.type, required=f.required, sensitive=f.sensitive, doc=f.doc)
                if f.default is not None:
                    json_format.ParseDict(f.default, w.default)
                if f.min is not None:
                    w.min = f.min
                if f.max is not None:
                    w.max = f.max
                for e in f.enum:
                    json_format.ParseDict(e, w.enum.add())
        return info

    def configure(request, context):
        with lock:
            if instance:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the process is configured already")
            cls = plugin.roles.get(request.role)
            if cls is None:
                context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such role")
            config, errors = check_config(cls.FIELDS, json_format.MessageToDict(request.config))
            if not errors:
                try:
                    instance[:] = [cls(config, log)]
                    role[:] = [request.role]
                except ConfigError as e:
                    errors.append(e)
                except BaseException as problem:
                    failed("configuring failed", problem)
                    errors.append(ConfigError("the plugin failed while it was configured: %r" % problem))
            reply = pb.ConfigureResponse()
            for e in errors:
                reply.diagnostics.add(severity=1, path=e.path, summary=e.summary, detail=e.detail)
            return reply

    def configured(context, kind):
        if not instance or role[0] != kind:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the plugin is not configured as a " + ROLE_NAMES[kind])
        return instance[0]

    def estimates(kind, method, response):
        def handle(request, context):
            call = getattr(configured(context, kind), method, None)
            _models.call_id.set(request.call_id)
            reply = response()
            try:
                for estimate in call(request):
                    e = reply.estimates.add()
                    if estimate is not None:
                        e.mean, e.std_dev = estimate
            except BaseException as problem:
                failed("estimate failed", problem)
                context.abort(grpc.StatusCode.UNKNOWN, repr(problem))
            return reply

        return handle

    def verify(request, context):
        verifier = configured(context, VERIFIER)
        events = queue.Queue()

        def report(message, done=0, total=0):
            events.put((pb.VerifyResponse(progress=pb.Progress(done=done, total=total, message=message)), None))

        def work():
            _models.call_id.set(request.call_id)
            try:
                events.put((None, verifier.verify(request, report)))
            except BaseException as problem:  # sys.exit(), too: the call waits for an event
                events.put((None, problem))

        threading.Thread(target=work, daemon=True).start()
        event, verdict = events.get()
        while event is not None:
            yield event
            event, verdict = events.get()
        if isinstance(verdict, BaseException):
            failed("verification failed", verdict)
            context.abort(grpc.StatusCode.INTERNAL, "verify raised %r" % verdict)
        if not isinstance(verdict, Verdict):
            log("error", "verification failed", error=repr(verdict))
            context.abort(grpc.StatusCode.INTERNAL, "verify gave %r and not a verdict" % (verdict,))
        yield pb.VerifyResponse(
            verdict=pb.Verdict(
                outcome=Verdict.OUTCOMES[verdict.outcome],
                score=verdict.score,
                confidence=verdict.confidence,
                evidence=verdict.evidence,
                cost_usd=verdict.cost_usd,
            )
        )

    def unary(handle, request):
        return grpc.unary_unary_rpc_method_handler(handle, request_deserializer=request.FromString, response_serializer=lambda m: m.SerializeToString())

    quality = estimates(QUALITY, "estimate_quality", pb.EstimateQualityResponse)
    cost = estimates(COST, "estimate_cost", pb.EstimateCostResponse)
    services = {
        "PluginService": {
            "GetInfo": unary(get_info, pb.GetInfoRequest),
            "Configure": unary(configure, pb.ConfigureRequest),
            "Connect": grpc.stream_stream_rpc_method_handler(
                _models.serve, request_deserializer=pb.ConnectRequest.FromString, response_serializer=lambda m: m.SerializeToString()
            ),
        },
        "QualityEstimatorService": {"EstimateQuality": unary(quality, pb.EstimateQualityRequest)},
        "CostEstimatorService": {"EstimateCost": unary(cost, pb.EstimateCostRequest)},
        "VerifierService": {
            "Verify": grpc.unary_stream_rpc_method_handler(
                verify, request_deserializer=pb.VerifyRequest.FromString, response_serializer=lambda m: m.SerializeToString()
            )
        },
    }
    return [grpc.method_handlers_generic_handler(SERVICE + name, methods) for name, methods in services.items()]

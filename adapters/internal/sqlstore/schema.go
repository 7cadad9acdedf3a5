package sqlstore

// Schema creates the tables for traces. In it SEQ stands for the type of an auto-incremented number, TEXT for text
// that is compared by bytes, COUNTERS for [Counters], and @ for the prefix.
const Schema = `
CREATE TABLE @steps (
	seq           SEQ PRIMARY KEY,
	id            TEXT NOT NULL UNIQUE,
	start_ns      BIGINT NOT NULL,
	policy        TEXT NOT NULL,
	mode          TEXT NOT NULL,
	strategy      TEXT NOT NULL,
	tenant        TEXT NOT NULL,
	key_id        TEXT NOT NULL,
	run           TEXT NOT NULL,
	session       TEXT NOT NULL,
	query_id      TEXT NOT NULL,
	asked         TEXT NOT NULL,
	chosen        TEXT NOT NULL,
	stop          TEXT NOT NULL,
	outcome       TEXT NOT NULL,
	error         TEXT NOT NULL,
	prompt        TEXT NOT NULL,
	calls         BIGINT NOT NULL,
	input_tokens  BIGINT NOT NULL,
	output_tokens BIGINT NOT NULL,
	cost_nanousd  BIGINT NOT NULL,
	duration_ns   BIGINT NOT NULL,
	overhead_ns   BIGINT NOT NULL,
	escalated     BIGINT NOT NULL
);
CREATE INDEX steps_by_start ON @steps (start_ns, seq);
CREATE INDEX steps_by_tenant ON @steps (tenant, start_ns, seq);
CREATE INDEX steps_by_key ON @steps (key_id, start_ns, seq) WHERE key_id <> '';
CREATE INDEX steps_by_run ON @steps (run, start_ns, seq) WHERE run <> '';
CREATE INDEX steps_by_session ON @steps (session, start_ns, seq) WHERE session <> '';
CREATE INDEX steps_by_query ON @steps (query_id, start_ns, seq) WHERE query_id <> '';
CREATE INDEX steps_by_policy ON @steps (policy, start_ns, seq);
CREATE INDEX steps_by_chosen ON @steps (chosen, start_ns, seq);
CREATE INDEX steps_by_outcome ON @steps (outcome, start_ns, seq) WHERE outcome <> '';
CREATE INDEX steps_by_stop ON @steps (stop, start_ns, seq);
CREATE TABLE @bodies (
	seq  BIGINT PRIMARY KEY,
	body TEXT NOT NULL
);
CREATE TABLE @sums (
	day           BIGINT NOT NULL,
	policy        TEXT NOT NULL,
	model         TEXT NOT NULL,
	COUNTERS,
	PRIMARY KEY (day, policy, model)
);
CREATE TABLE @tenant_sums (
	day           BIGINT NOT NULL,
	tenant        TEXT NOT NULL,
	key_id        TEXT NOT NULL,
	policy        TEXT NOT NULL,
	model         TEXT NOT NULL,
	COUNTERS,
	PRIMARY KEY (day, tenant, key_id, policy, model)
);
CREATE INDEX tenant_sums_by_tenant ON @tenant_sums (tenant, day);
CREATE INDEX tenant_sums_by_key ON @tenant_sums (key_id, day);
CREATE TABLE @runs (
	tenant        TEXT NOT NULL,
	run           TEXT NOT NULL,
	first_ns      BIGINT NOT NULL,
	last_ns       BIGINT NOT NULL,
	COUNTERS,
	PRIMARY KEY (tenant, run)
);
CREATE INDEX runs_by_last ON @runs (last_ns, run);
CREATE INDEX runs_by_run ON @runs (run);
`

// SchemaShared creates the tables for keys and notes. In it BYTES stands for the type of a byte string.
const SchemaShared = `
CREATE TABLE @gateway_keys (
	id   TEXT PRIMARY KEY,
	body TEXT NOT NULL
);
CREATE TABLE @key_digests (
	digest   BYTES PRIMARY KEY,
	key_id   TEXT NOT NULL,
	until_ns BIGINT NOT NULL
);
CREATE INDEX key_digests_by_key ON @key_digests (key_id);
CREATE TABLE @notes (
	kind     TEXT NOT NULL,
	name     TEXT NOT NULL,
	note     BYTES NOT NULL,
	until_ns BIGINT NOT NULL,
	PRIMARY KEY (kind, name)
);
CREATE TABLE @numbers (
	kind  TEXT NOT NULL,
	name  TEXT NOT NULL,
	i     BIGINT NOT NULL,
	value DOUBLE PRECISION NOT NULL,
	PRIMARY KEY (kind, name, i)
);
`

// Counters is what COUNTERS stands for in Schema.
const Counters = `
	steps BIGINT NOT NULL, failed BIGINT NOT NULL, escalated BIGINT NOT NULL, calls BIGINT NOT NULL,
	passed BIGINT NOT NULL, rejected BIGINT NOT NULL, inconclusive BIGINT NOT NULL,
	input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL, cost_nanousd BIGINT NOT NULL,
	duration_ns BIGINT NOT NULL, overhead_ns BIGINT NOT NULL`

CREATE TABLE IF NOT EXISTS stepfall_queue.runs (
	id text PRIMARY KEY,
	seen_at timestamptz NOT NULL DEFAULT now(),
	ended boolean NOT NULL DEFAULT false
);
-- How long the run is kept after somebody last waited for it.
ALTER TABLE stepfall_queue.runs ADD COLUMN IF NOT EXISTS keep interval NOT NULL DEFAULT '7 days';
CREATE TABLE IF NOT EXISTS stepfall_queue.workers (
	id text PRIMARY KEY,
	seen_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS stepfall_queue.records (
	n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	run text NOT NULL REFERENCES stepfall_queue.runs ON DELETE CASCADE,
	job text NOT NULL,
	worker text NOT NULL,
	at timestamptz NOT NULL DEFAULT now(),
	data bytea NOT NULL
);
-- Results were records once.
ALTER TABLE stepfall_queue.records DROP COLUMN IF EXISTS kind;
CREATE INDEX IF NOT EXISTS records_at ON stepfall_queue.records (run, at);
CREATE INDEX IF NOT EXISTS records_run_job ON stepfall_queue.records (run, job);
DROP INDEX IF EXISTS stepfall_queue.records_run;
CREATE TABLE IF NOT EXISTS stepfall_queue.parcels (
	name text PRIMARY KEY,
	parts int NOT NULL DEFAULT 0,
	used_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE stepfall_queue.parcels ALTER COLUMN parts SET DEFAULT 0;
CREATE TABLE IF NOT EXISTS stepfall_queue.parts (
	name text NOT NULL,
	part int NOT NULL,
	at timestamptz NOT NULL DEFAULT now(),
	data bytea NOT NULL,
	PRIMARY KEY (name, part)
);

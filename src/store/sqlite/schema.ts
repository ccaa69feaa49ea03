import type { DatabaseSync } from 'node:sqlite'

/** Marks a file as a store of ours: "Tlgt" in ASCII. */
export const APPLICATION_ID = 0x546c6774

/**
 * The schema, version by version: each entry takes a file from the version before to its own. Entries are never edited,
 * as files made by them are out there.
 *
 * The three tables share one count of places, from 1 without gaps: a start event is its call's row, an end event its
 * end's. What may be long stands last in a row, so that reading the rest does not touch it. `log_bytes`,
 * `record_number` and `record_bytes` are running totals up to and including their row, so that what is kept between
 * two places is a subtraction.
 */
export const versions: readonly string[] = [`
  CREATE TABLE calls (
    start_sequence INTEGER PRIMARY KEY,
    begun_at_ms INTEGER NOT NULL,
    log_bytes INTEGER NOT NULL,
    started_at_ms INTEGER NOT NULL,
    timeout_ms INTEGER NOT NULL,
    is_child INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    invocation_id TEXT NOT NULL,
    tool_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    tool_call_id TEXT,
    run_id TEXT,
    trace_id TEXT,
    parent_span_id TEXT,
    parent_invocation_id TEXT,
    input TEXT
  ) STRICT;
  CREATE UNIQUE INDEX calls_by_id ON calls (invocation_id);
  CREATE INDEX calls_by_run ON calls (run_id) WHERE run_id IS NOT NULL;

  CREATE TABLE updates (
    sequence INTEGER PRIMARY KEY,
    start_sequence INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    log_bytes INTEGER NOT NULL,
    partial_result TEXT NOT NULL
  ) STRICT;

  CREATE TABLE ends (
    end_sequence INTEGER PRIMARY KEY,
    start_sequence INTEGER NOT NULL,
    settled_at_ms INTEGER NOT NULL,
    log_bytes INTEGER NOT NULL,
    record_number INTEGER NOT NULL,
    record_bytes INTEGER NOT NULL,
    status TEXT NOT NULL,
    error_code TEXT,
    is_error INTEGER NOT NULL,
    executed INTEGER NOT NULL,
    duration_ms REAL NOT NULL,
    queued_ms REAL,
    result TEXT NOT NULL
  ) STRICT;
  CREATE INDEX ends_by_call ON ends (start_sequence);

  CREATE TABLE idempotency_keys (
    scope TEXT PRIMARY KEY,
    start_sequence INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    record_bytes INTEGER NOT NULL,
    fingerprint TEXT NOT NULL
  ) STRICT;
  CREATE INDEX idempotency_keys_by_call ON idempotency_keys (start_sequence);
  CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at_ms, record_bytes);

  CREATE TABLE epochs (
    epoch TEXT PRIMARY KEY,
    first_sequence INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE log (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    settled_below INTEGER NOT NULL,
    events_gone INTEGER NOT NULL,
    events_gone_bytes INTEGER NOT NULL,
    records_gone INTEGER NOT NULL,
    records_gone_number INTEGER NOT NULL,
    records_gone_bytes INTEGER NOT NULL
  ) STRICT;
  INSERT INTO log VALUES (1, 1, 0, 0, 0, 0, 0);
`, `
  -- Of two: 1 for a call that another one made, 2 for an input that is masked.
  ALTER TABLE calls RENAME COLUMN is_child TO flags;
  -- Encrypts the ids that tell nothing of how many others there are.
  ALTER TABLE log ADD COLUMN id_secret TEXT NOT NULL DEFAULT '';
  UPDATE log SET id_secret = lower(hex(randomblob(16)));
`]

/** A write that leaves nothing, and yet reaches the disk. */
export const TOUCH = "BEGIN IMMEDIATE; INSERT INTO epochs (epoch, first_sequence) VALUES ('', 0); DELETE FROM epochs WHERE epoch = ''; COMMIT"

/**
 * Takes a file to the newest version, a version at a time, each whole or not at all.
 * @returns whether it was of an older one
 */
export function migrate (connection: DatabaseSync, to: readonly string[] = versions): boolean {
  const { user_version: from } = connection.prepare('PRAGMA user_version').get() as { user_version: number }
  for (let version = from; version < to.length; version++) {
    try {
      connection.exec(`BEGIN IMMEDIATE; ${to[version]}; PRAGMA user_version = ${version + 1}; COMMIT`)
    } catch (error) {
      if (connection.isTransaction) connection.exec('ROLLBACK')
      throw error
    }
  }
  return from < to.length
}

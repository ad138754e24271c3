// The tables of SqliteLearningStore. `begun` counts a job's begins without an end; `turn` has the
// tenants in the order of their last turns.
#pragma once

#include <cstdint>

namespace graft {

// Tables that a file lacks are added to it; a changed one needs another version.
inline constexpr int64_t kLearningSchemaVersion = 1;

inline constexpr char kLearningSchema[] = R"(
  CREATE TABLE IF NOT EXISTS file (
    place      INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT UNIQUE NOT NULL,
    tenant     TEXT NOT NULL,
    name       TEXT NOT NULL,
    purpose    TEXT NOT NULL,
    bytes      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS file_tenant ON file (tenant, place);
  CREATE INDEX IF NOT EXISTS file_expiry ON file (expires_at);
  CREATE TABLE IF NOT EXISTS content (
    place INTEGER PRIMARY KEY REFERENCES file (place),
    bytes BLOB NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS job (
    place            INTEGER PRIMARY KEY AUTOINCREMENT,
    id               TEXT UNIQUE NOT NULL,
    tenant           TEXT NOT NULL,
    base_model       TEXT NOT NULL,
    training_file    TEXT NOT NULL,
    suffix           TEXT NOT NULL,
    metadata         TEXT NOT NULL,
    seed             INTEGER NOT NULL,
    method           TEXT NOT NULL,
    created_at       INTEGER NOT NULL,
    status           TEXT NOT NULL,
    is_cancelled     INTEGER NOT NULL,
    started_at       INTEGER NOT NULL,
    finished_at      INTEGER NOT NULL,
    estimated_finish INTEGER NOT NULL,
    trained_tokens   INTEGER NOT NULL,
    error_code       TEXT NOT NULL,
    error_message    TEXT NOT NULL,
    error_param      TEXT NOT NULL,
    adapter          TEXT NOT NULL,
    hash             TEXT NOT NULL,
    rank_max         INTEGER NOT NULL,
    bytes            INTEGER NOT NULL,
    base_hash        TEXT NOT NULL,
    virtual_tokens   INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS job_tenant ON job (tenant, place);
  CREATE INDEX IF NOT EXISTS job_status ON job (status);
  CREATE INDEX IF NOT EXISTS job_file ON job (training_file);
  CREATE TABLE IF NOT EXISTS event (
    job        TEXT NOT NULL,
    number     INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    level      TEXT NOT NULL,
    message    TEXT NOT NULL,
    data       TEXT NOT NULL,
    PRIMARY KEY (job, number)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS begun (
    job    TEXT PRIMARY KEY,
    begins INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS turn (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT UNIQUE NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS checkpoint (
    job        TEXT NOT NULL,
    step       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    loss       REAL NOT NULL,
    PRIMARY KEY (job, step)
  ) STRICT, WITHOUT ROWID)";

}  // namespace graft

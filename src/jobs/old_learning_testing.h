// Learning as earlier commits kept it, which knew hidden_states: a server's database and a job's
// record in etcd, in their own words and keys. For tests only.
#pragma once

#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/json.h"
#include "registry/sqlite_database.h"

namespace graft {

inline std::string OldMethod(const std::string& learner, const std::string& hidden_states) {
  return R"({"alpha":0.0,"batch":2,"held_out_share":0.05,"hidden_states":")" + hidden_states +
         R"(","keep":32,"learner":")" + learner +
         R"(","learning_rate_factor":10.0,"output_tokens":128,"outputs":1,"passes":4,)"
         R"("prompts":"auto","questions":192,"rank":4,"virtual_tokens":0,"window_tokens":24})";
}

// A job of the tenant t that waits to learn the file file-old.
inline std::string OldEtcdJob(const std::string& id, const std::string& method) {
  return R"({"adapter":"","base_hash":"","base_model":"base","bytes":0,"created_at":900,)"
         R"("error_code":"","error_message":"","error_param":"","estimated_finish":0,)"
         R"("finished_at":0,"folder":"","hash":"","id":")" +
         id + R"(","metadata":"","method":)" + Json(method).dump() +
         R"(,"num_virtual_tokens":0,"rank_max":0,"seed":7,"started_at":0,"status":"queued",)"
         R"("suffix":"","tenant":"t","trained_tokens":0,"training_file":"file-old"})";
}

inline constexpr char kOldLearningSchema[] = R"(
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
  CREATE TABLE IF NOT EXISTS checkpoint (
    job        TEXT NOT NULL,
    step       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    loss       REAL NOT NULL,
    PRIMARY KEY (job, step)
  ) STRICT, WITHOUT ROWID)";

// The tenant t's: the file file-old, what became of ftjob-done, and two jobs that wait,
// ftjob-hidden, which asks for hidden states, and ftjob-plain.
inline void WriteOldLearningDatabase(const std::string& path, const std::string& content) {
  SqliteDatabase database("the old database");
  CHECK(database.Open(path, /*version=*/1, kOldLearningSchema).ok());
  CHECK(SqliteStatement(database,
                        "INSERT INTO file (id, tenant, name, purpose, bytes, created_at, "
                        "expires_at) VALUES ('file-old', 't', 'a.txt', 'fine-tune', ?, 900, 0)")
            .Bind(static_cast<int64_t>(content.size()))
            .Run()
            .ok());
  CHECK(SqliteStatement(database, "INSERT INTO content (place, bytes) VALUES (1, ?)")
            .BindBytes(content)
            .Run()
            .ok());
  const auto add_job = [&database](const std::string& id, const std::string& method,
                                   const std::string& then) {
    CHECK(SqliteStatement(database,
                          ("INSERT INTO job (id, tenant, base_model, training_file, suffix, "
                           "metadata, seed, method, created_at, status, is_cancelled, started_at, "
                           "finished_at, estimated_finish, trained_tokens, error_code, "
                           "error_message, error_param, adapter, hash, rank_max, bytes, "
                           "base_hash, virtual_tokens) VALUES (?, 't', 'base', 'file-old', '', "
                           "'', 7, ?, 900, " +
                           then + ")")
                              .c_str())
              .Bind(id)
              .Bind(method)
              .Run()
              .ok());
    CHECK(SqliteStatement(database, "INSERT INTO event VALUES (?, 1, 900, 'info', ?, '')")
              .Bind(id)
              .Bind("Created fine-tuning job: " + id)
              .Run()
              .ok());
  };
  constexpr char kWaits[] = "'queued', 0, 0, 0, 0, 0, '', '', '', '', '', 0, 0, '', 0";
  add_job("ftjob-done", OldMethod("distill", "last"),
          "'succeeded', 0, 901, 950, 0, 1234, '', '', '', 'ft:base:ftjob-done', 'a hash', 4, "
          "5678, 'another base', 0");
  add_job("ftjob-hidden", OldMethod("distill", "all"), kWaits);
  add_job("ftjob-plain", OldMethod("next-token", "none"), kWaits);
  CHECK(database.Execute("INSERT INTO checkpoint VALUES ('ftjob-done', 3, 902, 0.5)").ok());
}

}  // namespace graft

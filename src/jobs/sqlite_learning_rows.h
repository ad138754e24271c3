// The records of learning as rows of SqliteLearningStore's tables: their columns are the fields of
// learning_fields.h. A store's lock is held.
#pragma once

#include <string>

#include "jobs/learning_records.h"
#include "registry/sqlite_database.h"

namespace graft {

// The tables. Tables that a file lacks are added to it; a changed one needs another version.
inline constexpr int64_t kLearningSchemaVersion = 1;
std::string LearningSchema();

// "id, tenant, ...": what the next functions read and bind, in that order.
const std::string& FileColumns();
const std::string& JobColumns();
const std::string& EventColumns();
const std::string& CheckpointColumns();
int NumJobColumns();

LearningFile FileOf(SqliteStatement& row);
LearningJob JobOf(SqliteStatement& row);
JobEvent EventOf(SqliteStatement& row);
JobCheckpoint CheckpointOf(SqliteStatement& row);

// "INSERT INTO TABLE (...) VALUES (...)", bound.
Status InsertFile(SqliteDatabase& database, const LearningFile& file);
Status InsertJob(SqliteDatabase& database, const LearningJob& job);
// With the number behind the job's last one.
Status InsertEvent(SqliteDatabase& database, const std::string& job, const JobEvent& event);
// In place of one of that step.
Status InsertCheckpoint(SqliteDatabase& database, const std::string& job,
                        const JobCheckpoint& checkpoint);
// All of VisitProgress.
Status UpdateJob(SqliteDatabase& database, const LearningJob& job);

}  // namespace graft

// The records of learning as rows of SqliteLearningStore's tables: their columns are the fields of
// learning_fields.h. A store's lock is held.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>

#include "jobs/learning_fields.h"
#include "registry/sqlite_database.h"

namespace graft {

template <typename T>
const char* TypeOf(const T&) {
  if (std::is_integral_v<T>) return "INTEGER";
  return std::is_floating_point_v<T> ? "REAL" : "TEXT";
}

template <typename T>
void BindColumn(SqliteStatement& row, const T& value) {
  if constexpr (std::is_same_v<T, JobStatus>) {
    row.Bind(JobStatusName(value));
  } else if constexpr (std::is_same_v<T, DocumentMethod>) {
    row.Bind(ToJson(value));
  } else if constexpr (std::is_integral_v<T>) {
    row.Bind(int64_t{value});
  } else {
    row.Bind(value);
  }
}

template <typename T>
void ReadColumn(SqliteStatement& row, int column, T* out) {
  if constexpr (std::is_same_v<T, JobStatus>) {
    *out = JobStatusOf(row.Text(column));
  } else if constexpr (std::is_same_v<T, DocumentMethod>) {
    *out = DocumentMethodOf(row.Text(column));
  } else if constexpr (std::is_integral_v<T>) {
    *out = static_cast<T>(row.Integer(column));
  } else if constexpr (std::is_floating_point_v<T>) {
    *out = row.Real(column);
  } else {
    *out = row.Text(column);
  }
}

// A field's column. One has the name that databases have had for it.
inline const char* ColumnOf(const char* field) {
  return std::strcmp(field, "num_virtual_tokens") == 0 ? "virtual_tokens" : field;
}

template <typename Record, typename Visit>
void VisitColumns(Record& record, const Visit& visit) {
  if constexpr (MaybeConst<Record, LearningJob>) {
    VisitOrder(record, visit);
    VisitProgress(record, visit);
    visit("is_cancelled", record.is_cancelled);
  } else {
    VisitFields(record, visit);
  }
}

// "id, tenant, ...": what the next functions read and bind, in that order.
template <typename Record>
std::string ColumnsOf() {
  std::string names;
  const Record record;
  VisitColumns(record, [&names](const char* field, const auto&) {
    names += (names.empty() ? "" : ", ") + std::string(ColumnOf(field));
  });
  return names;
}

template <typename Record>
int NumColumns() {
  int count = 0;
  const Record record;
  VisitColumns(record, [&count](const char*, const auto&) { ++count; });
  return count;
}

template <typename Record>
Record RowOf(SqliteStatement& row) {
  Record record;
  int column = 0;
  VisitColumns(record, [&](const char*, auto& value) { ReadColumn(row, column++, &value); });
  return record;
}

// "id TEXT UNIQUE NOT NULL, tenant TEXT NOT NULL, ...".
template <typename Record>
std::string Definitions() {
  std::string all;
  const Record record;
  VisitColumns(record, [&all](const char* field, const auto& value) {
    all += (all.empty() ? "" : ", ") + std::string(ColumnOf(field)) + " " + TypeOf(value) +
           (std::strcmp(field, "id") == 0 ? " UNIQUE" : "") + " NOT NULL";
  });
  return all;
}

// Inserts the record, `into` being "INSERT INTO TABLE". `job`: for a table that has a column of the
// job before the record's.
template <typename Record>
Status InsertRow(SqliteDatabase& database, const std::string& into, const Record& record,
                 const std::string* job = nullptr) {
  std::string places = job == nullptr ? "?" : "?, ?";
  for (int i = 1; i < NumColumns<Record>(); ++i) places += ", ?";
  SqliteStatement insert(database, into + (job == nullptr ? " (" : " (job, ") +
                                       ColumnsOf<Record>() + ") VALUES (" + places + ")");
  if (job != nullptr) insert.Bind(*job);
  VisitColumns(record, [&](const char*, const auto& value) { BindColumn(insert, value); });
  return insert.Run();
}

}  // namespace graft

// SqliteDatabase: a SQLite file with a schema version, and statements over it. Every change outside
// of a Transaction is a transaction of its own. After a kill the file is as the last finished
// change left it. One thread at a time: users of this class lock.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace graft {

class SqliteDatabase {
 public:
  // `what` begins every error: "the adapter registry".
  explicit SqliteDatabase(std::string what) : what_(std::move(what)) {}
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  // `path`: a file, or ":memory:" for a database that is not stored. Makes the tables of `schema`;
  // tables that exist stay as they are. kFailedPrecondition: the file is of a later version.
  // kDataLoss: it is no database.
  Status Open(const std::string& path, int64_t version, std::string_view schema);
  // For reading alone, by a URI.
  bool OpenToRead(const std::string& uri);

  Status Execute(const char* sql, const char* failure = "cannot write");
  // Rows that the last statement changed.
  int64_t num_changed() const;
  // What the last failure was.
  Status Error(const std::string& failure) const;
  // Whether it was the disk's, or one of rights; other processes may be able to write.
  bool CannotWrite() const;

 private:
  friend class SqliteStatement;

  const std::string what_;
  sqlite3* handle_ = nullptr;
};

// A prepared statement for one use; parameters and columns are counted from left to right.
class SqliteStatement {
 public:
  SqliteStatement(SqliteDatabase& database, const char* sql);
  SqliteStatement(SqliteDatabase& database, const std::string& sql)
      : SqliteStatement(database, sql.c_str()) {}
  ~SqliteStatement();
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  SqliteStatement& Bind(std::string_view text);
  SqliteStatement& Bind(const std::string& text) { return Bind(std::string_view(text)); }
  SqliteStatement& Bind(const char* text) { return Bind(std::string_view(text)); }
  SqliteStatement& Bind(int64_t value);
  SqliteStatement& Bind(double value);
  // Bytes of any kind, which must outlive the statement.
  SqliteStatement& BindBytes(std::string_view bytes);

  // Whether there is a row; false at the end and after a failure, which status() tells apart.
  bool Next();
  // Runs one that has no rows.
  Status Run();
  Status status() const { return status_; }

  std::string Text(int column);  // or bytes
  int64_t Integer(int column);
  double Real(int column);

 private:
  SqliteDatabase& database_;
  sqlite3_stmt* statement_ = nullptr;
  Status status_;
  int bound_ = 0;
};

// Changes that are made in one piece: given up at its end unless Commit succeeded.
class SqliteTransaction {
 public:
  explicit SqliteTransaction(SqliteDatabase& database);
  ~SqliteTransaction();
  SqliteTransaction(const SqliteTransaction&) = delete;
  SqliteTransaction& operator=(const SqliteTransaction&) = delete;

  // Why it could not begin.
  const Status& status() const { return status_; }
  Status Commit();

 private:
  SqliteDatabase& database_;
  Status status_;
  bool is_open_ = false;
};

}  // namespace graft

// graft cluster: what an operator does with a cluster, and a whole one on this machine for trying
// it out.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/local_processes.h"
#include "base/log.h"
#include "cli/cluster_loader.h"
#include "cli/cluster_options.h"
#include "cli/commands.h"
#include "keys/api_keys.h"
#include "model/model_folder.h"
#include "runtime/base_identity.h"
#include "runtime/runtime_options.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kUpPoll(100);
constexpr int kDownPatienceS = 40;

struct ClusterFlags {
  EtcdFlags etcd;
  std::string folder = "graft-cluster";
  // Flags of `up`.
  std::string model;
  std::string adapters;
  int num_runners = 3;
  int num_frontends = 2;
  uint16_t port = 8000;
  int wait_seconds = 120;
  // Flags of the other commands.
  std::string view_file;
  std::string keys_file;
  std::string name;
  int64_t version = 1;
  int64_t lines_max = 50;
  double weight = 1;
  bool if_none = false;
};

// A cluster on this machine, as `up` wrote it down.
struct LocalCluster {
  std::string etcd;  // host:port
  std::vector<LocalProcess> processes;
};

std::string StateFile(const ClusterFlags& flags) { return flags.folder + "/cluster.json"; }

Result<LocalCluster> ReadLocalCluster(const ClusterFlags& flags) {
  const Result<Json> json = ParseJsonFile(StateFile(flags));
  if (!json.ok()) {
    return NotFoundError("no cluster of `graft cluster up` in " + flags.folder +
                         " (--folder says which)");
  }
  LocalCluster cluster;
  if (json->is_object() && json->contains("etcd") && (*json)["etcd"].is_string()) {
    cluster.etcd = (*json)["etcd"].get<std::string>();
  }
  if (json->is_object() && json->contains("processes")) {
    cluster.processes = ProcessesFromJson((*json)["processes"]);
  }
  return cluster;
}

Status WriteLocalCluster(const ClusterFlags& flags, const LocalCluster& cluster) {
  std::ofstream file(StateFile(flags), std::ios::trunc);
  file << DumpJson({{"etcd", cluster.etcd}, {"processes", ToJson(cluster.processes)}});
  file.close();
  return file.good() ? OkStatus() : UnavailableError("cannot write " + StateFile(flags));
}

// The cluster of --etcd, or the one on this machine.
Result<std::unique_ptr<ClusterAdmin>> Administer(const ClusterFlags& flags) {
  ASSIGN_OR_RETURN(const ClusterLibrary* const library, LoadClusterLibrary());
  EtcdFlags etcd = flags.etcd;
  if (etcd.options.endpoints.empty()) {
    ASSIGN_OR_RETURN(const LocalCluster local, ReadLocalCluster(flags));
    etcd.options.endpoints = {local.etcd};
  }
  ASSIGN_OR_RETURN(const EtcdOptions options, ReadEtcdFlags(etcd));
  return library->Administer(options);
}

// The last line of a log from its byte `begin` on; "" where there is none.
std::string LastLineOf(const std::string& log, int64_t begin) {
  std::ifstream file(log);
  file.seekg(begin);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = std::move(line);
  }
  return last;
}

class LocalStart {
 public:
  explicit LocalStart(const ClusterFlags& flags) : flags_(flags) {}

  Status Run() {
    RETURN_IF_ERROR(InitLog("info"));
    const Status status = Begin();
    if (!status.ok()) EndProcesses(cluster_.processes, kDownPatienceS);
    return status;
  }

 private:
  Status Begin() {
    if (flags_.model.empty()) return InvalidArgumentError("which model? --model DIR, an HF folder");
    if (!FileExists(flags_.model + "/config.json")) {
      return NotFoundError("--model: " + flags_.model + " has no config.json");
    }
    const Result<LocalCluster> former = ReadLocalCluster(flags_);
    for (const LocalProcess& process : former.ok() ? former->processes : cluster_.processes) {
      if (!IsAlive(process)) continue;
      return AlreadyExistsError("the cluster in " + flags_.folder +
                                " is up; `graft cluster down` ends it");
    }
    for (int port = flags_.port; port < flags_.port + flags_.num_frontends; ++port) {
      if (!Listens(port)) continue;
      return UnavailableError("port " + std::to_string(port) +
                              " is in use: --port says where the frontends' begin");
    }
    std::error_code error;
    fs::create_directories(flags_.folder, error);
    if (error) return SystemError(error.value(), "cannot make the folder " + flags_.folder);
    folder_ = fs::absolute(flags_.folder, error).string();
    RETURN_IF_ERROR(StartEtcd());
    RETURN_IF_ERROR(StartRunners());
    RETURN_IF_ERROR(StartFrontends());
    std::printf("the cluster is up; its logs are in %s\n", flags_.folder.c_str());
    for (int i = 0; i < flags_.num_frontends; ++i) {
      std::printf("  http://127.0.0.1:%d/v1\n", flags_.port + i);
    }
    return OkStatus();
  }

  Status Start(const std::string& name, const std::vector<std::string>& arguments) {
    const std::string log = folder_ + "/" + name + ".log";
    std::error_code none_yet;
    const auto begin = fs::file_size(log, none_yet);
    log_begins_[name] = none_yet ? 0 : static_cast<int64_t>(begin);
    ASSIGN_OR_RETURN(const LocalProcess process, StartProcess(name, arguments, log));
    cluster_.processes.push_back(process);
    return WriteLocalCluster(flags_, cluster_);
  }

  // Until `holds`; an end of one of the processes is the reason why it never will.
  template <typename Condition>
  Status WaitFor(const std::string& what, const Condition& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(flags_.wait_seconds);
    while (!holds()) {
      for (const LocalProcess& process : cluster_.processes) {
        if (IsAlive(process)) continue;
        const std::string log = process.name + ".log";
        const std::string last = LastLineOf(folder_ + "/" + log, log_begins_[process.name]);
        return UnavailableError(process.name + " has ended" + (last.empty() ? "" : ": " + last) +
                                "; its log is " + flags_.folder + "/" + log);
      }
      if (std::chrono::steady_clock::now() > end) {
        return DeadlineExceededError(what + " after " + std::to_string(flags_.wait_seconds) +
                                     " s: see the logs in " + flags_.folder);
      }
      std::this_thread::sleep_for(kUpPoll);
    }
    return OkStatus();
  }

  Status StartEtcd() {
    ASSIGN_OR_RETURN(const int port, FindFreePort());
    ASSIGN_OR_RETURN(const int peer_port, FindFreePort());
    cluster_.etcd = "127.0.0.1:" + std::to_string(port);
    const std::string url = "http://" + cluster_.etcd;
    const std::string peer_url = "http://127.0.0.1:" + std::to_string(peer_port);
    const Status started = Start(
        "etcd",
        {"etcd", "--name=graft", "--data-dir=" + folder_ + "/etcd", "--listen-client-urls=" + url,
         "--advertise-client-urls=" + url, "--listen-peer-urls=" + peer_url,
         "--initial-advertise-peer-urls=" + peer_url, "--initial-cluster=graft=" + peer_url,
         "--auto-compaction-mode=periodic", "--auto-compaction-retention=10m",
         "--quota-backend-bytes=2147483648", "--logger=zap", "--log-level=warn"});
    if (started.code() == StatusCode::kNotFound) {
      return NotFoundError("etcd is not installed (Debian: apt-get install etcd-server)");
    }
    RETURN_IF_ERROR(started);
    ASSIGN_OR_RETURN(admin_, Administer(flags_));
    return WaitFor("etcd does not answer", [this] {
      const Status made = admin_->Init(ModelNameOf(flags_.model)).status();
      return made.ok() || made.code() == StatusCode::kAlreadyExists;
    });
  }

  Status StartRunners() {
    for (int i = 0; i < flags_.num_runners; ++i) {
      const std::string name = "runner-" + std::to_string(i);
      std::vector<std::string> arguments = {"/proc/self/exe",  "runner",
                                            "--model",         flags_.model,
                                            "--etcd",          cluster_.etcd,
                                            "--rpc-port",      "0",
                                            "--view-file",     folder_ + "/" + name + ".view",
                                            "--adapter-store", folder_ + "/adapters",
                                            "--quiet"};
      if (!flags_.adapters.empty()) {
        arguments.push_back("--adapters");
        arguments.push_back(flags_.adapters);
      }
      RETURN_IF_ERROR(Start(name, arguments));
    }
    return WaitFor("the runners are not up", [this] {
      const Result<std::string> text = admin_->Describe();
      int count = 0;
      if (!text.ok()) return false;
      for (size_t at = text->find("\nrunner "); at != std::string::npos;
           at = text->find("\nrunner ", at + 1)) {
        ++count;
      }
      return count == flags_.num_runners;
    });
  }

  Status StartFrontends() {
    for (int i = 0; i < flags_.num_frontends; ++i) {
      const std::string name = "frontend-" + std::to_string(i);
      RETURN_IF_ERROR(Start(name, {"/proc/self/exe", "frontend", "--model", flags_.model, "--etcd",
                                   cluster_.etcd, "--port", std::to_string(flags_.port + i),
                                   "--view-file", folder_ + "/" + name + ".view", "--quiet"}));
    }
    return WaitFor("the frontends do not listen", [this] {
      bool all = true;
      for (int i = 0; i < flags_.num_frontends; ++i) all = all && Listens(flags_.port + i);
      return all;
    });
  }

  const ClusterFlags& flags_;
  std::string folder_;
  LocalCluster cluster_;
  std::map<std::string, int64_t> log_begins_;  // by process; logs of former clusters go on
  std::unique_ptr<ClusterAdmin> admin_;
};

Status RunDown(const ClusterFlags& flags) {
  ASSIGN_OR_RETURN(const LocalCluster cluster, ReadLocalCluster(flags));
  std::vector<LocalProcess> servers, etcd;
  for (const LocalProcess& process : cluster.processes) {
    (process.name == "etcd" ? etcd : servers).push_back(process);
  }
  EndProcesses(servers, kDownPatienceS);
  EndProcesses(etcd, kDownPatienceS);
  std::error_code error;
  fs::remove(StateFile(flags), error);
  std::printf("the cluster is down; what it knew stays in %s\n", flags.folder.c_str());
  return OkStatus();
}

// Puts the names of this machine's runners and frontends beside their process numbers: `text` has
// lines with "process 17".
std::string WithNames(std::string text, const LocalCluster& cluster) {
  for (const LocalProcess& process : cluster.processes) {
    const std::string number = ", process " + std::to_string(process.pid) + " of ";
    const size_t at = text.find(number);
    if (at != std::string::npos) text.insert(at, ", " + process.name);
  }
  return text;
}

Status RunStatus(const ClusterFlags& flags) {
  LocalCluster cluster;
  if (flags.etcd.options.endpoints.empty()) {
    ASSIGN_OR_RETURN(cluster, ReadLocalCluster(flags));
    for (const LocalProcess& process : cluster.processes) {
      std::printf("process %d: %s%s\n", process.pid, process.name.c_str(),
                  IsAlive(process) ? "" : ", has ended");
    }
  }
  ASSIGN_OR_RETURN(const auto admin, Administer(flags));
  ASSIGN_OR_RETURN(const std::string text, admin->Describe());
  std::printf("%s", WithNames(text, cluster).c_str());
  return OkStatus();
}

// One that asks etcd and prints the answer.
using Ask = std::function<Result<std::string>(ClusterAdmin&, const ClusterFlags&)>;

Command AskCommand(const std::string& name, const std::string& help,
                   const std::shared_ptr<ClusterFlags>& flags, std::vector<Option> rows,
                   const Ask& ask) {
  for (Option& row : EtcdOptionRows(flags->etcd)) rows.push_back(row);
  rows.push_back(
      {"folder", Text(flags->folder), "of `graft cluster up`, where --etcd is not given"});
  return {.name = name,
          .help = help,
          .groups = {{"Options", std::move(rows)}},
          .run = [flags, ask]() -> Status {
            RETURN_IF_ERROR(InitLog("info"));  // its lines are as the servers' are
            ASSIGN_OR_RETURN(const auto admin, Administer(*flags));
            ASSIGN_OR_RETURN(const std::string text, ask(*admin, *flags));
            std::printf("%s", text.c_str());
            return OkStatus();
          }};
}

Command UpCommand(const std::shared_ptr<ClusterFlags>& flags) {
  return {.name = "up",
          .help =
              "A whole cluster on this machine, for trying it out: etcd, runners, frontends.\n"
              "  graft cluster up --model demo/base --adapters demo/adapters --runners 3",
          .groups = {{"Options",
                      {{"model", ModelFolder(flags->model), "HF folder of the base model"},
                       {"adapters", Text(flags->adapters), "folder of PEFT folders"},
                       {"runners", Number(flags->num_runners, Between(1, 64)), "how many"},
                       {"frontends", Number(flags->num_frontends, Between(1, 16)), "how many"},
                       {"port", Number(flags->port, Between(1, 65500)),
                        "the first frontend's; the others have the next ones"},
                       {"folder", Text(flags->folder), "for logs and etcd's data"},
                       {"wait-seconds", Number(flags->wait_seconds, AtLeast(1)),
                        "for each kind of process to be up"}}}},
          .run = [flags] { return LocalStart(*flags).Run(); }};
}

// A cluster that is there already is what --if-none asks for.
Result<std::string> InitCluster(ClusterAdmin& admin, const ClusterFlags& flags) {
  Result<std::string> made = admin.Init(flags.name);
  if (flags.if_none && made.status().code() == StatusCode::kAlreadyExists) {
    return made.status().message() + "\n";
  }
  return made;
}

// The commands for its runners and for the cluster as a whole.
std::vector<Command> WholeCommands(const std::shared_ptr<ClusterFlags>& flags) {
  return {
      AskCommand("drain",
                 "Have a runner go: its requests move to others, and it ends with exit code 0.\n"
                 "  graft cluster drain HOST:PORT",
                 flags,
                 {Positional({"runner", Text(flags->name), "its address, as status prints it"}),
                  {"wait-seconds", Number(flags->wait_seconds, AtLeast(0)), "until it has gone"}},
                 [](ClusterAdmin& admin, const ClusterFlags& f) {
                   return admin.Drain(f.name, f.wait_seconds);
                 }),
      AskCommand("init",
                 "Make a cluster in an etcd that has none.\n"
                 "  graft cluster init --etcd HOST:PORT",
                 flags,
                 {{"base", Text(flags->name), "what it serves, for people"},
                  {"if-none", Switch(flags->if_none),
                   "a cluster that is there already is no error, and stays"}},
                 InitCluster),
      AskCommand(
          "base",
          "Give the cluster another base model; what serves the former one is started anew.\n"
          "  graft cluster base --model DIR",
          flags, {Required({"model", ModelFolder(flags->model), "HF folder of the base model"})},
          [](ClusterAdmin& admin, const ClusterFlags& f) -> Result<std::string> {
            ASSIGN_OR_RETURN(const BaseIdentity base, IdentifyBase(f.model));
            const std::string name = ModelNameOf(f.model);
            return admin.SetBase({name, base.text_hash, base.weights_hash});
          }),
      AskCommand(
          "restore",
          "Write back what was last known, into an etcd that came back empty.\n"
          "  graft cluster restore --etcd HOST:PORT --view FILE",
          flags,
          {Required({"view", Text(flags->view_file), "a frontend's or runner's --view-file"})},
          [](ClusterAdmin& admin, const ClusterFlags& f) { return admin.Restore(f.view_file); })};
}

Result<std::string> SetKeys(ClusterAdmin& admin, const ClusterFlags& flags) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.keys_file));
  // What no frontend would take must not reach them.
  ApiKeys keys(SteadyClock::Get());
  RETURN_IF_ERROR(keys.LoadText(text).WithContext(flags.keys_file));
  return admin.SetKeys(text);
}

// Those for what it keeps of adapters, keys and tenants.
std::vector<Command> RecordCommands(const std::shared_ptr<ClusterFlags>& flags) {
  const Option adapter = Positional({"adapter", Text(flags->name), "its name"});
  const Option tenant = Positional({"tenant", Text(flags->name), "whose"});
  return {
      AskCommand("versions",
                 "What an adapter's name has led to.\n"
                 "  graft cluster versions ADAPTER",
                 flags, {adapter},
                 [](ClusterAdmin& admin, const ClusterFlags& f) { return admin.Versions(f.name); }),
      AskCommand(
          "rollback",
          "Have an adapter's name lead to a former version again.\n"
          "  graft cluster rollback ADAPTER --version 2",
          flags,
          {adapter, Required({"version", Number(flags->version, AtLeast(1)), "see versions"})},
          [](ClusterAdmin& admin, const ClusterFlags& f) {
            return admin.RollBack(f.name, f.version);
          }),
      AskCommand("keys",
                 "Put these keys in the place of the cluster's.\n"
                 "  graft cluster keys --keys FILE",
                 flags,
                 {Required({"keys", Text(flags->keys_file),
                            "JSON file of keys, each given by its key_sha256 "
                            "(docs/http-api.md)"})},
                 SetKeys),
      AskCommand("audit", "Who changed what.\n  graft cluster audit", flags,
                 {{"lines", Number(flags->lines_max, AtLeast(1)), "the newest"}},
                 [](ClusterAdmin& admin, const ClusterFlags& f) {
                   return admin.Audit(static_cast<size_t>(f.lines_max));
                 }),
      AskCommand("forget",
                 "Remove all that is a tenant's: adapters, versions, keys.\n"
                 "  graft cluster forget TENANT",
                 flags, {tenant},
                 [](ClusterAdmin& admin, const ClusterFlags& f) { return admin.Forget(f.name); }),
      AskCommand("weight",
                 "Give a tenant a larger or smaller share of full runners than others have.\n"
                 "  graft cluster weight TENANT --weight 2",
                 flags,
                 {tenant, Required({"weight", Number(flags->weight, Between(0.001, 1000)),
                                    "2: twice as much as a tenant without one, who has 1"})},
                 [](ClusterAdmin& admin, const ClusterFlags& f) {
                   return admin.SetWeight(f.name, f.weight);
                 }),
  };
}

}  // namespace

Command ClusterCommand() {
  const auto flags = std::make_shared<ClusterFlags>();  // lives as long as the command
  const Option folder{"folder", Text(flags->folder), "where `graft cluster up` keeps its files"};
  std::vector<Option> status_rows = EtcdOptionRows(flags->etcd);
  status_rows.push_back(folder);
  std::vector<Command> commands = {
      UpCommand(flags),
      {.name = "status",
       .help = "Who is there.\n  graft cluster status",
       .groups = {{"Options", std::move(status_rows)}},
       .run = [flags] { return RunStatus(*flags); }},
      {.name = "down",
       .help = "End what `graft cluster up` started.\n  graft cluster down",
       .groups = {{"Options", {folder}}},
       .run = [flags] { return RunDown(*flags); }}};
  for (Command& command : WholeCommands(flags)) commands.push_back(std::move(command));
  for (Command& command : RecordCommands(flags)) commands.push_back(std::move(command));
  return {.name = "cluster",
          .help = "Servers on several machines: try them out, look after them.",
          .subcommands = std::move(commands)};
}

}  // namespace graft

// Package wire writes and reads both protocols of solving services: the names of their calls,
// fields and codes are here and nowhere else.
//
//	legacy.go  in.php and res.php: the calls;  legacyfields.go: the fields;  legacyanswer.go
//	tasks.go   createTask and its family;      task.go: the fields;          tasksanswer.go
//	order.go   an order of either protocol, checked by check.go; picture.go
//	codes.go   the error codes and their numbers
//
// A client (package provider) writes orders with LegacyForm and CreateTask. A service (packages
// simulated and httpapi) reads them with ReadLegacy and ReadTasks. One list of fields serves both
// directions: legacyFields for in.php, Task for createTask. A new field of an identity is one
// line in legacyFields, and a field of Task with its line in CreateTask and Task.read.
//
// All functions are pure. Calls are read strictly: a field that is given twice or has an invalid
// value makes the call bad, with a code. Unknown fields are listed in Order.Undone, so that a
// service can refuse an order that it could carry out only in part.
//
// A server accepts the fields that the clients of all services send. The package does not
// check keys and stores no tasks.
package wire

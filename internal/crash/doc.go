// Package crash lets a test kill the process at a named point of its work, as SIGKILL from
// outside does, only exactly there. In a process that is not armed, as no daemon is but
// those of tests, At does nothing.
//
// Which points there are the packages say that pass them: purchase and compat.
package crash

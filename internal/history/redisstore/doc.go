// Package redisstore keeps the history in the daemon's own Redis, for some days: the
// newest 50 records of each site, the newest 1,000 of each status, the figures of each
// day, and a mark of each order, so that none is counted twice. All of it is in one slot.
//
// Of the audit it keeps the newest 10,000 entries of each key, and the figures of each day
// by key. An entry has no mark: where it is written again after 10,000 newer ones of its
// key it counts again.
package redisstore

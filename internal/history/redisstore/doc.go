// Package redisstore keeps the history in the daemon's own Redis, for some days: the newest 50 records of each site,
// the newest 1,000 of each status, the figures of each day, and a mark of each order, so that none is counted twice.
// All of it is in one slot.
//
// The audit has the newest 10,000 entries of each key, and the figures of each day by key. An entry has no mark: if
// it is written again after 10,000 newer ones of its key, it counts again.
//
// Arrivals keeps the times of requests, for a day, whichever store has the records.
//
// # Keys
//
// With the prefix "captcha":
//
//	captcha:solve:{history}:ORDER.id         string  "site|Unix ms" of a record
//	captcha:alias:{history}:HASH             string  ORDER.id of the newest record of a provider's task
//	captcha:records:{history}:site:HASH      zset    a record -> Unix ms of its end; the newest 50 of a site
//	captcha:records:{history}:STATUS         zset    the same, the newest 1,000 of a status
//	captcha:day:{history}:2006-01-02         hash    figures of that UTC day
//	captcha:audit:{history}:HASH             zset    "ID text" of an entry of a key -> Unix ms; the newest 10,000
//	captcha:usage:{history}:2006-01-02       hash    figures of that UTC day, by key
//	captcha:arrivals:{target}:2006-01-02T15  hash    "minute:REPLICA" of that UTC hour -> the moments, in history's own format
package redisstore

-- A record by the provider's id of its task, which may be of any length. An operator can make
-- this index of a large table beforehand, "concurrently".
create index if not exists captcha_solves_task on captcha_solves (left(task, 100), ended, id) where task <> '';

-- Where somebody signed in from, for the list of their own sessions; empty in those that began before.
alter table sessions add column ip text, add column user_agent text;

-- Waits in the server before a look: between half of the time and all of it, so that clients do not keep in step.
--
-- :micros  how long
DO SLEEP(:micros / 1000000 * (0.5 + RAND() / 2));

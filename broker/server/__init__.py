"""One broker's life: everything is built, plugged together, started in order and stopped in order here.

The only room that knows all floors. Settings come in from `broker.cli`; requests come in by the listeners of
`data_plane`, watches of ZooKeeper by `control_plane`.
"""

"""The provider for Airflow: operators, a sensor, a connection type, links, assets and lineage."""

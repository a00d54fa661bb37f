"""The tenant and quota database, its triggers, and the plans of a new installation."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

from tenants import default_plans, triggers


def install_triggers(apps, schema_editor):
    triggers.install(schema_editor.connection)


def remove_triggers(apps, schema_editor):
    triggers.remove(schema_editor.connection)


def seed(apps, schema_editor):
    default_plans.seed(apps.get_model("tenants", "Plan"), apps.get_model("tenants", "PlanLimit"))
    apps.get_model("tenants", "ConfigVersion").objects.get_or_create(id=1)


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Organization',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.CharField(max_length=40, unique=True)),
                ('skeleton', models.CharField(max_length=40, unique=True)),
                ('name', models.CharField(max_length=80)),
                ('weight', models.FloatField()),
                ('highest_class', models.SmallIntegerField(choices=[(0, 'interactive'), (1, 'standard'), (2, 'batch')])),
                ('suspended_at', models.DateTimeField(blank=True, null=True)),
                ('suspended_why', models.CharField(blank=True, max_length=500)),
                ('version', models.PositiveIntegerField(default=1)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'ordering': ('slug',),
            },
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('actor', models.CharField(max_length=200)),
                ('address', models.CharField(blank=True, max_length=64)),
                ('action', models.CharField(max_length=60)),
                ('target', models.CharField(max_length=120)),
                ('tenant', models.CharField(blank=True, max_length=40)),
                ('before', models.JSONField(null=True)),
                ('after', models.JSONField(null=True)),
                ('why', models.CharField(blank=True, max_length=500)),
                ('config_version', models.BigIntegerField()),
                ('undoes', models.BigIntegerField(null=True)),
            ],
            options={
                'ordering': ('-id',),
                'indexes': [models.Index(fields=['tenant', '-id'], name='audit_of_tenant'), models.Index(fields=['target', 'action', '-id'], name='audit_of_target')],
            },
        ),
        migrations.CreateModel(
            name='ConfigVersion',
            fields=[
                ('id', models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('version', models.BigIntegerField(default=0)),
                ('changed_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='config_version_one_row')],
            },
        ),
        migrations.CreateModel(
            name='CreditAccount',
            fields=[
                ('organization', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='credit', serialize=False, to='tenants.organization')),
                ('granted', models.BigIntegerField(default=0)),
                ('charged', models.BigIntegerField(default=0)),
                ('refunded', models.BigIntegerField(default=0)),
                ('expired', models.BigIntegerField(default=0)),
                ('overdraft', models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key_id', models.CharField(max_length=8, unique=True)),
                ('label', models.CharField(max_length=80)),
                ('digest', models.BinaryField(max_length=32)),
                ('hint', models.CharField(max_length=4)),
                ('scopes', models.JSONField()),
                ('allowed_models', models.JSONField(default=list)),
                ('allowed_networks', models.JSONField(default=list)),
                ('highest_class', models.SmallIntegerField(choices=[(0, 'interactive'), (1, 'standard'), (2, 'batch')])),
                ('default_class', models.SmallIntegerField(choices=[(0, 'interactive'), (1, 'standard'), (2, 'batch')])),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('created_by', models.CharField(max_length=200)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('disabled_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_at', models.DateTimeField(blank=True, null=True)),
                ('rotated_to', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='tenants.apikey')),
                ('organization', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='keys', to='tenants.organization')),
            ],
            options={
                'ordering': ('-created_at', 'key_id'),
            },
        ),
        migrations.CreateModel(
            name='KeyLimit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('meter', models.CharField(max_length=12)),
                ('pool', models.CharField(default='*', max_length=40)),
                ('klass', models.CharField(default='*', max_length=12)),
                ('amount', models.BigIntegerField()),
                ('burst', models.BigIntegerField(blank=True, null=True)),
                ('key', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='limits', to='tenants.apikey')),
            ],
            options={
                'ordering': ('meter', 'pool', 'klass'),
            },
        ),
        migrations.CreateModel(
            name='LedgerCall',
            fields=[
                ('call_id', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('arrived_at', models.DateTimeField()),
                ('tenant', models.CharField(max_length=80)),
                ('key_id', models.CharField(max_length=80)),
                ('endpoint', models.CharField(max_length=80)),
                ('model', models.CharField(max_length=200)),
                ('pool', models.CharField(max_length=80)),
                ('klass', models.SmallIntegerField()),
                ('stream', models.BooleanField()),
                ('outcome', models.CharField(max_length=12)),
                ('reason', models.CharField(blank=True, max_length=40)),
                ('status', models.SmallIntegerField()),
                ('replica', models.CharField(blank=True, max_length=80)),
                ('request_id', models.CharField(blank=True, max_length=200)),
                ('prompt_tokens', models.IntegerField()),
                ('cached_tokens', models.IntegerField()),
                ('completion_tokens', models.IntegerField()),
                ('received_tokens', models.IntegerField()),
                ('reserved_tokens', models.BigIntegerField()),
                ('estimated', models.BooleanField()),
                ('charge_microcredits', models.BigIntegerField()),
                ('service_cost', models.FloatField()),
                ('queue_s', models.FloatField(null=True)),
                ('ttft_s', models.FloatField(null=True)),
                ('first_visible_s', models.FloatField(null=True)),
                ('tpot_s', models.FloatField(null=True)),
                ('e2e_s', models.FloatField(null=True)),
                ('duration_s', models.FloatField()),
                ('loop_lag_s', models.FloatField()),
                ('retry_after_s', models.FloatField(null=True)),
                ('message', models.CharField(blank=True, max_length=500)),
                ('retry_count', models.SmallIntegerField()),
                ('client', models.CharField(blank=True, max_length=200)),
                ('batch_id', models.CharField(blank=True, max_length=80)),
                ('line_no', models.IntegerField(null=True)),
                ('config_version', models.BigIntegerField()),
                ('degraded', models.BooleanField()),
            ],
            options={
                'ordering': ('-arrived_at', '-call_id'),
                'indexes': [models.Index(fields=['tenant', 'arrived_at'], name='ledger_tenant_arrived'), models.Index(fields=['arrived_at'], name='ledger_arrived'), models.Index(condition=models.Q(('batch_id', ''), _negated=True), fields=['batch_id', 'line_no'], name='ledger_batch_line')],
                'constraints': [models.CheckConstraint(condition=models.Q(('cached_tokens__gte', 0), ('charge_microcredits__gte', 0), ('completion_tokens__gte', 0), ('prompt_tokens__gte', 0), ('received_tokens__gte', 0)), name='ledger_counts_not_negative')],
            },
        ),
        migrations.CreateModel(
            name='LedgerAttempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.SmallIntegerField()),
                ('replica', models.CharField(max_length=80)),
                ('dispatched_s', models.FloatField()),
                ('ended_s', models.FloatField()),
                ('queue_s', models.FloatField()),
                ('reason', models.CharField(blank=True, max_length=40)),
                ('headers_s', models.FloatField(null=True)),
                ('first_event_s', models.FloatField(null=True)),
                ('first_token_s', models.FloatField(null=True)),
                ('received_tokens', models.IntegerField()),
                ('rule', models.CharField(blank=True, max_length=80)),
                ('call', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='tenants.ledgercall')),
            ],
            options={
                'ordering': ('call', 'number'),
            },
        ),
        migrations.CreateModel(
            name='Member',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('owner', 'Owner'), ('member', 'Member'), ('viewer', 'Viewer')], max_length=8)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('organization', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='members', to='tenants.organization')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('organization', 'user'),
            },
        ),
        migrations.CreateModel(
            name='Operator',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('disabled_at', models.DateTimeField(blank=True, null=True)),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='operator', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('user',),
            },
        ),
        migrations.CreateModel(
            name='OrganizationLimit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('meter', models.CharField(max_length=12)),
                ('pool', models.CharField(default='*', max_length=40)),
                ('klass', models.CharField(default='*', max_length=12)),
                ('amount', models.BigIntegerField()),
                ('burst', models.BigIntegerField(blank=True, null=True)),
                ('organization', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='limits', to='tenants.organization')),
            ],
            options={
                'ordering': ('meter', 'pool', 'klass'),
            },
        ),
        migrations.CreateModel(
            name='Plan',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.CharField(max_length=40, unique=True)),
                ('name', models.CharField(max_length=80)),
                ('weight', models.FloatField(default=1.0)),
                ('highest_class', models.SmallIntegerField(default=0)),
                ('cached_ratio', models.FloatField(default=0.1)),
                ('over_limit', models.CharField(choices=[('stop', 'refuse calls'), ('degrade', 'keep a local share')], default='degrade', max_length=8)),
            ],
            options={
                'ordering': ('slug',),
                'constraints': [models.CheckConstraint(condition=models.Q(('weight__gte', 0.01), ('weight__lte', 1000.0)), name='plan_weight_in_bounds'), models.CheckConstraint(condition=models.Q(('highest_class__in', [0, 1, 2])), name='plan_highest_class_known'), models.CheckConstraint(condition=models.Q(('cached_ratio__in', (0.0, 0.1, 1.0))), name='plan_cached_ratio_known'), models.CheckConstraint(condition=models.Q(('over_limit__in', ['stop', 'degrade'])), name='plan_over_limit_known')],
            },
        ),
        migrations.AddField(
            model_name='organization',
            name='plan',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='organizations', to='tenants.plan'),
        ),
        migrations.CreateModel(
            name='PlanLimit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('meter', models.CharField(max_length=12)),
                ('pool', models.CharField(default='*', max_length=40)),
                ('klass', models.CharField(default='*', max_length=12)),
                ('amount', models.BigIntegerField()),
                ('burst', models.BigIntegerField(blank=True, null=True)),
                ('plan', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='limits', to='tenants.plan')),
            ],
            options={
                'ordering': ('meter', 'pool', 'klass'),
            },
        ),
        migrations.CreateModel(
            name='CreditGrant',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('plan', 'Plan'), ('top_up', 'Top Up'), ('refund', 'Refund')], max_length=8)),
                ('amount', models.BigIntegerField()),
                ('remaining', models.BigIntegerField()),
                ('granted_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('why', models.CharField(max_length=500)),
                ('account', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='grants', to='tenants.creditaccount')),
            ],
            options={
                'ordering': ('granted_at', 'id'),
            },
        ),
        migrations.AddConstraint(
            model_name='creditaccount',
            constraint=models.CheckConstraint(condition=models.Q(('charged__gte', 0), ('expired__gte', 0), ('granted__gte', 0), ('overdraft__gte', 0), ('refunded__gte', 0)), name='credit_totals_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='creditaccount',
            constraint=models.CheckConstraint(condition=models.Q(('refunded__lte', models.F('charged'))), name='credit_refunds_within_charges'),
        ),
        migrations.AddConstraint(
            model_name='apikey',
            constraint=models.CheckConstraint(condition=models.Q(('default_class__in', [0, 1, 2]), ('highest_class__in', [0, 1, 2])), name='key_classes_known'),
        ),
        migrations.AddConstraint(
            model_name='apikey',
            constraint=models.CheckConstraint(condition=models.Q(('default_class__gte', models.F('highest_class'))), name='key_default_class_granted'),
        ),
        migrations.AddConstraint(
            model_name='keylimit',
            constraint=models.UniqueConstraint(fields=('key', 'meter', 'pool', 'klass'), name='key_limit_once'),
        ),
        migrations.AddConstraint(
            model_name='keylimit',
            constraint=models.CheckConstraint(condition=models.Q(('klass__in', ('*', 'online', 'interactive', 'standard', 'batch')), ('meter__in', ('tpm', 'itpm', 'otpm', 'rpm', 'concurrent', 'day', 'month', 'enqueued'))), name='key_limit_known'),
        ),
        migrations.AddConstraint(
            model_name='keylimit',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gte', 1), ('amount__lte', 100000000000), models.Q(('burst__isnull', True), models.Q(('burst__gte', 1), ('burst__lte', 100000000000), ('meter__in', ['itpm', 'otpm', 'rpm', 'tpm'])), _connector='OR')), name='key_limit_bounded'),
        ),
        migrations.AddConstraint(
            model_name='ledgerattempt',
            constraint=models.UniqueConstraint(fields=('call', 'number'), name='ledger_attempt_once'),
        ),
        migrations.AddConstraint(
            model_name='member',
            constraint=models.UniqueConstraint(fields=('organization', 'user'), name='member_once'),
        ),
        migrations.AddConstraint(
            model_name='member',
            constraint=models.CheckConstraint(condition=models.Q(('role__in', ['owner', 'member', 'viewer'])), name='member_role_known'),
        ),
        migrations.AddConstraint(
            model_name='organizationlimit',
            constraint=models.UniqueConstraint(fields=('organization', 'meter', 'pool', 'klass'), name='organization_limit_once'),
        ),
        migrations.AddConstraint(
            model_name='organizationlimit',
            constraint=models.CheckConstraint(condition=models.Q(('klass__in', ('*', 'online', 'interactive', 'standard', 'batch')), ('meter__in', ('tpm', 'itpm', 'otpm', 'rpm', 'concurrent', 'day', 'month', 'enqueued'))), name='organization_limit_known'),
        ),
        migrations.AddConstraint(
            model_name='organizationlimit',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gte', 1), ('amount__lte', 100000000000), models.Q(('burst__isnull', True), models.Q(('burst__gte', 1), ('burst__lte', 100000000000), ('meter__in', ['itpm', 'otpm', 'rpm', 'tpm'])), _connector='OR')), name='organization_limit_bounded'),
        ),
        migrations.AddConstraint(
            model_name='organization',
            constraint=models.CheckConstraint(condition=models.Q(('weight__gte', 0.01), ('weight__lte', 1000.0)), name='organization_weight_in_bounds'),
        ),
        migrations.AddConstraint(
            model_name='organization',
            constraint=models.CheckConstraint(condition=models.Q(('highest_class__in', [0, 1, 2])), name='organization_highest_class_known'),
        ),
        migrations.AddConstraint(
            model_name='organization',
            constraint=models.CheckConstraint(condition=models.Q(('slug', ''), _negated=True), name='organization_slug_not_empty'),
        ),
        migrations.AddConstraint(
            model_name='planlimit',
            constraint=models.UniqueConstraint(fields=('plan', 'meter', 'pool', 'klass'), name='plan_limit_once'),
        ),
        migrations.AddConstraint(
            model_name='planlimit',
            constraint=models.CheckConstraint(condition=models.Q(('klass__in', ('*', 'online', 'interactive', 'standard', 'batch')), ('meter__in', ('tpm', 'itpm', 'otpm', 'rpm', 'concurrent', 'day', 'month', 'enqueued'))), name='plan_limit_known'),
        ),
        migrations.AddConstraint(
            model_name='planlimit',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gte', 1), ('amount__lte', 100000000000), models.Q(('burst__isnull', True), models.Q(('burst__gte', 1), ('burst__lte', 100000000000), ('meter__in', ['itpm', 'otpm', 'rpm', 'tpm'])), _connector='OR')), name='plan_limit_bounded'),
        ),
        migrations.AddIndex(
            model_name='creditgrant',
            index=models.Index(condition=models.Q(('remaining__gt', 0)), fields=['expires_at'], name='credit_grant_due'),
        ),
        migrations.AddConstraint(
            model_name='creditgrant',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['plan', 'top_up', 'refund'])), name='credit_grant_kind_known'),
        ),
        migrations.AddConstraint(
            model_name='creditgrant',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gte', 1), ('remaining__gte', 0), ('remaining__lte', models.F('amount'))), name='credit_grant_remaining_in_amount'),
        ),
        migrations.RunPython(install_triggers, remove_triggers),
        migrations.RunPython(seed, migrations.RunPython.noop),
    ]
